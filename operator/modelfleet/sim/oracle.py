"""What knowledge of the future is worth: the least replicas that keep the share, always started in time."""

from collections.abc import Sequence
from math import ceil

from modelfleet.sim.fleet import Observation
from modelfleet.sim.requests import Request

WINDOW_S = 10.0


class Oracle:
    """Replicas for the load that comes: `load` / `knee` in windows of 10 s, started a cold start ahead, and kept
    through troughs that are shorter than a cold start, because buying again costs as much."""

    tick_s = 5.0

    def __init__(self, plan: Sequence[int], cold_start_s: float) -> None:
        self._plan, self._cold_start_s = plan, cold_start_s

    def wish(self, seen: Observation) -> int:
        """The most that is needed from now until what is started now would serve."""
        first = int(seen.now_s / WINDOW_S)
        last = int((seen.now_s + self._cold_start_s * 1.1 + self.tick_s) / WINDOW_S) + 1
        return max(self._plan[first : last + 1], default=self._plan[-1])


def work_by_window(requests: Sequence[Request], work: Sequence[float], until_s: float) -> list[float]:
    """Work a second in windows of 10 s."""
    windows = [0.0] * (ceil(until_s / WINDOW_S) + 1)
    for request, amount in zip(requests, work, strict=True):
        windows[int(request.arrival_s / WINDOW_S)] += amount / WINDOW_S
    return windows


def needed(windows: Sequence[float], knee_rps: float, smooth: int) -> list[int]:
    """Replicas for each window; the load is smoothed over `smooth` windows, which a queue carries over."""
    half = smooth // 2
    found = []
    for index in range(len(windows)):
        near = windows[max(0, index - half) : index + half + 1]
        found.append(max(1, ceil(sum(near) / len(near) / knee_rps - 1e-9)))
    return found
