"""Recent values of one signal, as the rules of the peers average them."""

from collections import deque


class Series:
    """Values with their times, kept for `keep_s`."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._values: deque[tuple[float, float]] = deque()

    def add(self, now_s: float, value: float) -> None:
        """A new value; those that are too old are dropped."""
        self._values.append((now_s, value))
        while self._values[0][0] <= now_s - self._keep_s:
            self._values.popleft()

    def mean(self, now_s: float, window_s: float | None = None) -> float:
        """The mean over the window, or over all that is kept; 0 without values."""
        values = [value for at, value in self._values if window_s is None or at > now_s - window_s]
        return sum(values) / len(values) if values else 0.0

    def highest(self) -> float:
        """The highest value that is kept; 0 without values."""
        return max((value for _, value in self._values), default=0.0)

    def lowest(self) -> float:
        """The lowest value that is kept; 0 without values."""
        return min((value for _, value in self._values), default=0.0)
