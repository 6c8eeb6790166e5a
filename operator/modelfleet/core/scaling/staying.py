"""Why no replica may leave now, and how many may nonetheless. Pure; the same in the operator and in the simulator."""

from collections.abc import Iterable

from modelfleet.core.scaling.memory import LEARN_S


def stays(*, waiting: int, before: int, serving: int, moving: bool, learns: bool, spare: int) -> tuple[str, int]:
    """Empty where one may leave. `waiting` requests wait, at the last decision `before` did. `spare` replicas may be
    given up though something moves."""
    if waiting > max(before, serving):
        return "requests pile up", 0
    if moving:
        return "replicas are starting or ending", spare  # one change is seen through before the next
    if learns:
        return f"the load is known for less than {LEARN_S / 60:.0f} minutes", 0
    return "", 0


def spare_while_moving(current: int, served: int, least: int, ages_s: Iterable[float], start_s: float) -> int:
    """Of `current` replicas those that may be given up though something moves, beyond `least`: what was wanted of a
    load that did not come is not waited for.

    `served` serve, or did before they began again. `ages_s` are those of replicas that start for the first time: one
    that is past half of a start, `start_s`, is soon there, and tells how long a start takes.
    """
    young = sum(age_s < start_s / 2 for age_s in ages_s)
    return max(0, min(young, current - max(served, least)))
