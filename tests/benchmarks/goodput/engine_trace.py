"""Inside the engine's API server: writes one line for each judged request, so that differences can be explained.

Loaded by an entry point of its own beside ours; a benchmark's tool, no part of the product. Standard library only.
"""

import json
import os
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from modelfleet_worker.gate import Gate
from modelfleet_worker.gate_state import FOLDER_VARIABLE
from modelfleet_worker.tally import Tally

FILE = "trace.jsonl"
_ID: ContextVar[str] = ContextVar("trace_id", default="")


def install() -> None:
    """vLLM calls it in each of its processes; only those with a gate write anything."""
    judged, end = Gate._judged, Tally.end
    path = Path(os.environ[FOLDER_VARIABLE]).parent / FILE

    async def traced(self: Gate, scope: Any, receive: Any, send: Any, said: Any) -> None:
        found = dict(scope["headers"]).get(b"x-request-id", b"")
        _ID.set(found.decode("latin-1"))
        await judged(self, scope, receive, send, said)

    def ended(self: Tally, index: int, request: Any, *, at_zero: bool) -> Any:
        verdict = end(self, index, request, at_zero=at_zero)
        seen = request.measured()
        line = {"id": _ID.get(), "verdict": verdict.value, "promise": self.promise.digest}
        if seen is not None:
            line |= {"ttft_s": seen.ttft_s, "tpot_s": seen.tpot_s, "output_tokens": seen.output_tokens}
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return verdict

    Gate._judged, Tally.end = traced, ended  # type: ignore[method-assign]
