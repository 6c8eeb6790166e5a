"""What NAME-state holds about going to zero (zero.json): inputs to decisions that no other object holds. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from modelfleet.api.zero_status import ZeroState
from modelfleet.core import raw

TRIES = 5
"""Wakes in a row that may fail with growing back-offs; then one is tried in LONGEST_S."""

FIRST_S, LONGEST_S = 10.0, 900.0
"""Back-offs after a wake that failed: 10 s, 20 s, 40 s, 80 s; from the fifth on 900 s."""

FIRST_PORT, PORTS = 20_000, 10_000
"""Ports of activators: above those that need rights, below those that Linux hands out to clients (32768)."""

_WEEK = timedelta(days=7)
_MOST_S = 1e9
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)  # beyond it there is no arithmetic


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Wakes in a row that failed: how many, when the last did, of which generation of the spec, and why."""

    times: int
    at: datetime
    generation: int
    reason: str
    message: str

    @property
    def until(self) -> datetime:
        """When the next may be tried."""
        doubled_s = FIRST_S * 2 ** min(self.times - 1, TRIES)
        return self.at + timedelta(seconds=LONGEST_S if self.times >= TRIES else doubled_s)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What NAME-state holds. `idle_at` and `arrivals`: since when nothing came, and what replicas had counted then, by
    uid; None before the first was ready. `woken` and `waited`: how many replicas wake, for how many requests.
    `answered`: entries of status.demand that are served, by activator. `counted_since`, `at_zero_s` and `wakes`: the
    record of what going to zero saved, of about a week."""

    state: ZeroState = ZeroState.SERVING
    since: datetime | None = None
    port: int | None = None
    idle_at: datetime | None = None
    arrivals: Mapping[str, int] = field(default_factory=dict)
    woken: int = 0
    waited: int = 0
    answered: Mapping[str, str] = field(default_factory=dict)
    failed: Failed | None = None
    counted_since: datetime | None = None
    at_zero_s: float = 0.0
    wakes: int = 0

    def turned(self, state: ZeroState, now: datetime) -> "Kept":
        """In another state, from now on."""
        at = now.replace(microsecond=0)
        since = self.since or at
        left = self.state is ZeroState.AT_ZERO and state is not ZeroState.AT_ZERO
        passed_s = max(0.0, (at - since).total_seconds()) if left else 0.0
        woken = 1 if state is ZeroState.WAKING else 0
        return replace(
            self,
            state=state,
            since=at,
            counted_since=self.counted_since or at,
            at_zero_s=round(self.at_zero_s + passed_s, 1),
            wakes=self.wakes + woken,
        ).of_about_a_week(at)

    def of_about_a_week(self, now: datetime) -> "Kept":
        """With half of the record forgotten where it is older than a week."""
        since = self.counted_since
        if since is None or now - since <= _WEEK:
            return self
        return replace(
            self, counted_since=since + (now - since) / 2, at_zero_s=self.at_zero_s / 2, wakes=round(self.wakes / 2)
        )

    def not_after(self, now: datetime) -> "Kept":
        """With nothing later than now, where a clock was set back or another operator's was ahead: such a time would
        hold everything up until it comes."""
        at, failed = now.replace(microsecond=0), self.failed

        def known(time: datetime | None) -> datetime | None:
            return at if time is not None and time > now else time

        return replace(
            self,
            since=known(self.since),
            idle_at=known(self.idle_at),
            counted_since=known(self.counted_since),
            failed=replace(failed, at=at) if failed is not None and failed.at > now else failed,
        )

    def with_clock(self, at: datetime, arrivals: Mapping[str, int]) -> "Kept":
        """With the clock set to `at`, when replicas had counted `arrivals`."""
        return replace(self, idle_at=at, arrivals=dict(arrivals))

    def without_clock(self) -> "Kept":
        """With a clock that does not run."""
        return self if self.idle_at is None and not self.arrivals else replace(self, idle_at=None, arrivals={})


def read_kept(entry: Mapping[str, Any]) -> Kept:
    """What NAME-state holds; what cannot be read is as if it were not there."""
    state = next((each for each in ZeroState if each == raw.text(entry, "state")), ZeroState.SERVING)
    port, failed = raw.integer(entry, "port"), raw.mapping(entry, "failed")
    at, counts = _instant(failed, "at"), raw.mapping(entry, "idle", "arrivals")
    return Kept(
        state=state,
        since=_instant(entry, "since"),
        port=port if FIRST_PORT <= port < FIRST_PORT + PORTS else None,
        idle_at=_instant(entry, "idle", "at"),
        arrivals={str(uid): count for uid, count in counts.items() if isinstance(count, int)},
        woken=raw.integer(entry, "wake", "replicas"),
        waited=raw.integer(entry, "wake", "waited"),
        counted_since=_instant(entry, "record", "since"),
        at_zero_s=_number(entry, "atZero_s"),
        wakes=raw.integer(entry, "record", "wakes"),
        answered={str(k): str(v) for k, v in raw.mapping(entry, "answered").items()},
        failed=Failed(
            times=max(1, raw.integer(failed, "times", default=1)),
            at=at,
            generation=raw.integer(failed, "generation"),
            reason=raw.text(failed, "reason"),
            message=raw.text(failed, "message"),
        )
        if at is not None
        else None,
    )


def _instant(entry: Mapping[str, Any], *path: str) -> datetime | None:
    found = raw.instant(entry, *path)
    return found if found is not None and found < _LATEST else None


def _number(entry: Mapping[str, Any], key: str) -> float:
    found = raw.at(entry, "record", key)
    known = isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found <= _MOST_S
    return float(found) if known else 0.0


def kept_entry(kept: Kept) -> dict[str, Any]:
    """As NAME-state holds it; `read_kept` of it gives an equal value."""
    said: dict[str, Any] = {"state": str(kept.state)}
    if kept.since is not None:
        said["since"] = kept.since.isoformat()
    if kept.port is not None:
        said["port"] = kept.port
    if kept.idle_at is not None:
        said["idle"] = {"at": kept.idle_at.isoformat(), "arrivals": dict(kept.arrivals)}
    if kept.woken:
        said["wake"] = {"replicas": kept.woken, "waited": kept.waited}
    if kept.answered:
        said["answered"] = dict(kept.answered)
    if kept.counted_since is not None:
        since = kept.counted_since.replace(microsecond=0).isoformat()
        said["record"] = {"since": since, "atZero_s": kept.at_zero_s, "wakes": kept.wakes}
    if kept.failed is not None:
        said["failed"] = {
            "times": kept.failed.times,
            "at": kept.failed.at.isoformat(),
            "generation": kept.failed.generation,
            "reason": kept.failed.reason,
            "message": kept.failed.message,
        }
    return said
