"""What `modelfleet explain` says of the promise as it was measured. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from modelfleet.cli.plan_text import columns, headed, wrapped
from modelfleet.core import raw

_SEEN = (
    ("ttft", "time to the first token"),
    ("tpot", "time per output token"),
    ("requestsPerSecond", "requests a second"),
    ("concurrency", "requests in flight"),
    ("kvCacheTokens", "tokens of KV cache"),
)


def goodput_lines(status: Mapping[str, Any]) -> Iterator[str]:
    """The shares of the last minutes, and what one replica was seen to do beside what was predicted of it."""
    goodput = raw.mapping(status, "goodput")
    if not goodput:
        return
    yield from headed(f"Goodput of the last {raw.text(goodput, 'window')}")
    rows = [
        (
            raw.text(one, "name"),
            raw.text(one, "share") or "no request",
            raw.text(one, "target"),
            str(raw.integer(one, "requests")),
            raw.text(one, "outsideRegime") or "inside",
        )
        for one in raw.items(goodput, "objectives")
    ]
    yield from columns(("objective", "share", "target", "requests, about", "regime"), rows)
    outside = raw.text(goodput, "outsideRegimeShare")
    if outside:
        inside = raw.text(goodput, "share") or "not known"
        yield from wrapped(f"  Outside the regime {outside} kept the promise; in the last window inside it: {inside}.")
    yield from _observed(status)


def _observed(status: Mapping[str, Any]) -> Iterator[str]:
    for pool in raw.items(status, "plan", "pools"):
        predicted, observed = raw.mapping(pool, "predicted"), raw.mapping(pool, "observed")
        rows = [(text, str(predicted.get(name, "-")), str(observed[name])) for name, text in _SEEN if name in observed]
        if rows:
            yield from headed(f"One replica on {raw.text(pool, 'class')}")
            yield from columns(("", "predicted", "observed"), rows)
        yield from _learned(predicted, observed)


def _learned(predicted: Mapping[str, Any], observed: Mapping[str, Any]) -> Iterator[str]:
    """The corrections, how sure they are, and where they are kept."""
    knee, steps = raw.text(observed, "kneeRequestsPerSecond"), raw.text(observed, "stepTime")
    if knee:
        yield from wrapped(
            f"  Knee as requests taught it: {knee} requests a second ± {raw.text(observed, 'kneeUncertainty')} %; the"
            f" plan says {raw.text(predicted, 'kneeRequestsPerSecond')}."
        )
    if steps:
        yield from wrapped(
            f"  Steps take {steps} times what is predicted of them, by about {raw.integer(observed, 'steps'):,} steps;"
            f" times corrected by it are right to ± {raw.text(observed, 'stepTimeUncertainty')} %. It is kept in"
            f" ModelProfile {raw.text(observed, 'profile')}, which plans made from now on use; another spec.replan has"
            " one made."
        )
