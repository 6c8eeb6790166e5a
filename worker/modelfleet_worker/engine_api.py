"""What the supervisor asks the engine over loopback: is it healthy, does it generate, its metrics."""

from typing import Any

import aiohttp

from modelfleet_worker.gate_state import TOKEN_HEADER

_HEALTH_TIMEOUT_S = 2.0
_METRICS_TIMEOUT_S = 5.0
_SHOWN_CHARACTERS = 300


class NotServedError(Exception):
    """The engine answered, and not with a token; the text has its words. `final`: asking again would not help."""

    def __init__(self, text: str, *, final: bool) -> None:
        super().__init__(text)
        self.final = final


class EngineApi:
    """The engine's HTTP API on this machine's `port`; `token` lets the gate tell our requests from others."""

    def __init__(self, port: int, token: str) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._headers = {TOKEN_HEADER: token}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "EngineApi":
        self._session = aiohttp.ClientSession(self._base, headers=self._headers, auto_decompress=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def healthy(self) -> bool:
        """Whether /health is 200 now."""
        try:
            async with self._open.get("/health", timeout=_total(_HEALTH_TIMEOUT_S)) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def generate_one_token(self, model: str) -> None:
        """Returns once the engine generated a token for `model`, however long that takes. Raises NotServedError.

        A healthy engine may still die at its first request, so /health alone proves nothing.
        """
        request = {"model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
        try:
            async with self._open.post("/v1/completions", json=request, timeout=_total(None)) as answer:
                text = await answer.text()
                if answer.status != 200:
                    said = f"HTTP {answer.status}: {' '.join(text.split())[:_SHOWN_CHARACTERS]}"
                    raise NotServedError(said, final=400 <= answer.status < 500)
                value: Any = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise NotServedError(f"no answer: {error}", final=False) from error
        if not _has_token(value):
            raise NotServedError(f"an answer without a token: {text[:_SHOWN_CHARACTERS]}", final=False)

    async def metrics(self) -> tuple[bytes, str]:
        """The engine's own Prometheus page and its content type. Raises aiohttp.ClientError or TimeoutError."""
        async with self._open.get("/metrics", timeout=_total(_METRICS_TIMEOUT_S)) as answer:
            answer.raise_for_status()
            return await answer.read(), answer.headers.get("Content-Type", "text/plain")

    @property
    def _open(self) -> aiohttp.ClientSession:
        assert self._session is not None, "used outside of `async with`"
        return self._session


def _total(seconds: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)


def _has_token(value: Any) -> bool:
    usage = value.get("usage") if isinstance(value, dict) else None
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return isinstance(count, int) and count >= 1
