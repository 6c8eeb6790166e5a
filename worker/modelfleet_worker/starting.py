"""A start's end: a token came through the served name, or why none will."""

import asyncio

from modelfleet_worker.engine_api import EngineApi, NotServedError
from modelfleet_worker.failure import Failure, Reason

POLL_S = 0.25
_HEALTH = "its /health never was 200"
LOOKS_AT_FILES = "what must hold before an engine starts was still looked at; a volume may not answer"
"""What a start waits for that never came to its engine."""


class FirstToken:
    """Waits for an engine to generate. `waits_for` says at any time what it has not done yet."""

    def __init__(self, api: EngineApi, served_name: str) -> None:
        self._api, self._name = api, served_name
        self.waits_for = _HEALTH

    async def healthy(self) -> None:
        """Returns once the engine's /health was 200."""
        self.waits_for = _HEALTH  # of this engine; an earlier one may have come further
        while not await self._api.healthy():  # noqa: ASYNC110 (another process's state has no event)
            await asyncio.sleep(POLL_S)
        self.waits_for = "it is healthy and gave no answer to a request for one token"

    async def generated(self) -> None:
        """Returns once a token came through the served name. Raises NotServedError if none will come."""
        while True:
            try:
                await self._api.generate_one_token(self._name)
                return
            except NotServedError as error:
                if error.final:
                    raise
                self.waits_for = f"it is healthy and answers a request for one token with {error}"
                await asyncio.sleep(POLL_S)


def not_served(name: str, error: NotServedError, log: str) -> Failure:
    """The engine is healthy and refuses to generate."""
    message = f"The engine started and does not serve {name}: {str(error).rstrip('. ')}."
    remedy = "Serve a model that generates text, with the engine of this worker's image."
    return Failure(reason=Reason.MODEL_REFUSED, message=message, remedy=remedy, log=log)


def ungated(log: str) -> Failure:
    """The engine generates and did not load our layer."""
    message = "The engine serves without the gate, so requests would not be counted and admin paths not hidden."
    remedy = "Use an engine that honours vLLM's --middleware; unset VLLM_USE_RUST_FRONTEND."
    return Failure(reason=Reason.ENGINE_START_FAILED, message=message, remedy=remedy, log=log)


def start_timeout(deadline_s: float, waits_for: str, log: str) -> Failure:
    """Nothing came in time."""
    message = f"The engine served no token within {deadline_s:g} s: {waits_for}."
    remedy = "See in the log what it was doing; speed up the volume, or raise the start deadline."
    return Failure(reason=Reason.ENGINE_START_TIMEOUT, message=message, remedy=remedy, log=log)
