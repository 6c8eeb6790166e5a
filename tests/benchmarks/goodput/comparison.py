"""Our verdicts beside a referee's, request by request. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench_worker import Limits
from own_client import Seen

GOOD = "met"


@dataclass(frozen=True)
class Difference:
    """One request that the two judge differently. `why` names the time that decided and how far it is from its limit
    on both sides."""

    id: str
    ours: str
    theirs: str
    why: str


def is_good(seen: Seen, limits: Limits) -> bool:
    """The referee's joint rule on its own times."""
    return seen.ending == "finished" and seen.ttft_s <= limits.ttft_s and seen.tpot_s <= limits.tpot_s


def differences(ours: Mapping[str, Mapping[str, Any]], theirs: Sequence[Seen], limits: Limits) -> Iterator[Difference]:
    """Every request whose verdicts differ, or that one side has not seen."""
    for seen in theirs:
        mine = ours.get(seen.id)
        good = is_good(seen, limits)
        if mine is None:
            yield Difference(seen.id, "not counted", _word(good), "we have not seen it")
        elif (mine["verdict"] == GOOD) != good:
            yield Difference(seen.id, str(mine["verdict"]), _word(good), _why(mine, seen, limits))
    for name in ours.keys() - {seen.id for seen in theirs}:
        yield Difference(name, str(ours[name]["verdict"]), "not reported", "the referee reports no such request")


def offsets_ms(ours: Mapping[str, Mapping[str, Any]], theirs: Sequence[Seen]) -> list[float]:
    """By how much later a client saw its first token than the engine generated it, sorted."""
    both = ((ours[seen.id], seen) for seen in theirs if seen.id in ours and seen.ending == "finished")
    return sorted((seen.ttft_s - mine["ttft_s"]) * 1000 for mine, seen in both if "ttft_s" in mine)


def _word(good: bool) -> str:
    return "good" if good else "not good"


def _why(mine: Mapping[str, Any], seen: Seen, limits: Limits) -> str:
    if "ttft_s" not in mine:
        return f"{mine['verdict']} without a token"
    parts = []
    for name, ours_s, theirs_s, limit_s in (
        ("ttft", mine["ttft_s"], seen.ttft_s, limits.ttft_s),
        ("tpot", mine["tpot_s"], seen.tpot_s, limits.tpot_s),
    ):
        if (ours_s <= limit_s) != (theirs_s <= limit_s):
            parts.append(
                f"{name} {ours_s * 1000:.2f} ms by the engine, {theirs_s * 1000:.2f} ms at the client,"
                f" limit {limit_s * 1000:.2f} ms"
            )
    return "; ".join(parts) or f"the referee says {seen.ending}"
