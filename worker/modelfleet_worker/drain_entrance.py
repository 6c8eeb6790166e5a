"""The entrance to a drain for whoever chose this worker: `POST /drain` on the status port.

Off unless the plan names the SHA-256 of a token: what reaches the status port may be anybody in the cluster.
"""

import hashlib
import hmac
from collections.abc import Iterable
from typing import Any

from aiohttp import web
from prometheus_client.core import GaugeMetricFamily, Metric

from modelfleet_worker.drain import Drain
from modelfleet_worker.gate_state import Board, Mode
from modelfleet_worker.parts import Part

_MODES = {mode.name.lower(): mode for mode in Mode}


class DrainEntrance(Part):
    """Answers `{"mode": …}` with what holds afterwards, in_flight with it."""

    def __init__(self, drain: Drain, board: Board, token_sha256: str) -> None:
        self._drain, self._board, self._token_sha256 = drain, board, token_sha256

    def routes(self) -> Iterable[web.RouteDef]:
        return (web.post("/drain", self._asked),) if self._token_sha256 else ()

    def metrics(self) -> Iterable[Metric]:
        text = "1 for what is done with arrivals now: serve, close (serve and close the connection) or refuse."
        family = GaugeMetricFamily("modelfleet_worker_arrivals", text, labels=["mode"])
        for name, mode in _MODES.items():
            family.add_metric([name], mode is self._drain.mode)
        yield family

    async def _asked(self, request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        known = hmac.compare_digest(
            hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest(), self._token_sha256
        )
        if scheme != "Bearer" or not known:
            return _answer(401, "Unauthorized", "this worker's token is needed")
        try:
            wanted: Any = await request.json()
            mode = _MODES[wanted["mode"]]
        except (ValueError, LookupError, TypeError, RecursionError):
            return _answer(400, "BadRequest", f'the body must be {{"mode": one of {", ".join(_MODES)}}}')
        if self._drain.mode is Mode.REFUSE and mode is not Mode.REFUSE:
            return _answer(409, "Refusing", "arrivals were refused already; this worker does not serve again")
        self._drain.enter(mode)
        value = {"mode": self._drain.mode.name.lower(), "inFlight": self._board.read().in_flight}
        return web.json_response(value)


def _answer(status: int, reason: str, message: str) -> web.Response:
    return web.json_response({"reason": reason, "message": message}, status=status)
