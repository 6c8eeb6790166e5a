"""Goodput as a part of the worker: loads the plugin, hands the promise on whenever it changes, shows the counts."""

import asyncio
import logging
import re
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import Metric

from modelfleet_worker import engine_pages, goodput_pages
from modelfleet_worker.engine_code import write_entry_point
from modelfleet_worker.engine_counts import read_engines
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.parts import Around, Equipment, Part
from modelfleet_worker.promise import Promise, PromiseError, parse_promise
from modelfleet_worker.state import State
from modelfleet_worker.tally import read_tally

_POLL_S = 1.0
_MOST_SILENT = 10
_LINE_CHARACTERS = 1000
_BALANCEDNESS = re.compile(r"\bEPLB step: \d+ .*\bbalancedness=(\d\.\d+)")
_log = logging.getLogger(__name__)


class GoodputPart(Part):
    """Without the operator's promise.json nothing is judged."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._text: str | None = None
        self._earlier: Promise | None = None
        self._balancedness: float | None = None

    async def check(self) -> Failure | None:
        """Nothing speaks against a start; the promise is read before the first request."""
        self._look()
        return None

    def equip(self, code: Path) -> Equipment:
        """The plugin's entry point, and the flag that makes the engine tell what was in a step."""
        write_entry_point(code)
        return Equipment(args=("--enable-logging-iteration-details",))

    def heard(self, line: str) -> None:
        """The balance of experts, which vLLM tells in its log alone (`--eplb-config` with log_balancedness)."""
        if "EPLB step" in line and (found := _BALANCEDNESS.search(line[:_LINE_CHARACTERS])):
            self._balancedness = float(found[1])

    async def watch(self) -> Failure:
        """Hands a changed promise on. Returns if the engine serves and told us nothing of the supervisor's request."""
        silent, told = 0, False
        while silent < _MOST_SILENT:
            self._look()
            # The answer reaches the supervisor a moment before the engine's code around it has returned to the gate.
            serves = self._around.progress.state is State.SERVING
            told = told or (serves and self._around.board.read().probes > 0)
            silent = silent + 1 if serves and not told else 0
            await asyncio.sleep(_POLL_S)
        return _untold()

    def metrics(self) -> Iterable[Metric]:
        """Everything that docs/metrics.md lists below modelfleet_goodput_ and modelfleet_engine_."""
        board = self._around.board
        if board.promise is not None:
            shown = [read_tally(board.folder, board.promise)]
            if self._earlier is not None:
                shown.append(read_tally(board.folder, self._earlier))
            yield from goodput_pages.families(shown)
        yield from engine_pages.families(read_engines(board.folder), board.read(), self._balancedness)

    def _look(self) -> None:
        try:
            text = self._around.promise.read_text()
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            _log.warning("the promise cannot be read: %s", error)
            return
        if text == self._text:
            return
        before = self._around.board.promise
        try:
            promise = _promise_after(before, text)
            self._around.board.set_promise(promise, text)
        except PromiseError as error:
            self._text = text
            _log.error("the promise before it stays: %s", error)
            return
        except OSError as error:  # a full volume; it is tried again
            _log.warning("the promise cannot be handed on: %s", error)
            return
        self._text = text
        if before is not None and before.digest != promise.digest:
            self._earlier = before
        _log.info("requests are judged by promise %s", promise.digest)


def _promise_after(before: Promise | None, text: str) -> Promise:
    """The promise in `text`. Raises PromiseError, also for one whose counts would be added to those of another."""
    promise = parse_promise(text)
    if before is not None and before.digest == promise.digest and before.objectives != promise.objectives:
        raise PromiseError(f"promise.json: the digest {promise.digest} must be another one, since the objectives are")
    return promise


def _untold() -> Failure:
    message = "The engine serves without our plugin, so requests would not be judged by the promise."
    remedy = "Use an engine version that this worker knows; unset VLLM_PLUGINS in the image."
    return Failure(reason=Reason.ENGINE_START_FAILED, message=message, remedy=remedy)
