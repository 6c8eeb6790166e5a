"""How many requests a second this process may send: a token bucket. Reads loop.time() only."""

import asyncio


class Rate:
    """Lets `burst` requests through at once and `per_s` a second after that, in the order in which they came."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s, self._burst = per_s, burst
        self._left = float(burst)  # below zero: so many are waiting already
        self._at_s: float | None = None

    async def wait(self) -> None:
        """Until the next request may be sent."""
        now_s = asyncio.get_running_loop().time()
        gained = 0.0 if self._at_s is None else (now_s - self._at_s) * self._per_s
        self._left, self._at_s = min(self._burst, self._left + gained) - 1, now_s
        if self._left < 0:
            await asyncio.sleep(-self._left / self._per_s)
