"""Holds the cached blocks of chosen sessions for a short gap, by touching them before they are the next to go.

An engine keeps the blocks of a finished request until others need the room, the least recently used first. A request
for one token with the same tokens as prompt makes them the most recently used, for the price of less than a block of
prefill. Nothing is pinned: a session that is touched no more ages as any other. Standard library only: it runs in each
API-server process of the engine, beside the gate, and calls the engine through its own public API.
"""

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelfleet_worker.engine_counts import EngineSeen, Word, read_engines
from modelfleet_worker.exchange import App, Message, Scope
from modelfleet_worker.hold_counts import Ended, HoldCounts
from modelfleet_worker.promise import Hold

_PERIOD_S = 0.5
_TOUCH_S = 10.0  # a touch that takes longer is worth less than what it waits for
_AGED = 0.25
"""A session is touched when so much of the room that is not in use was filled since: long before its turn to go."""
_MOST = 256  # sessions in one process
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Turn:
    """One request of a chosen session. `states` are the engine's notes of its sequences; `plain`: its prompt is tokens
    alone, so that the same tokens find the same blocks (no images, no salt)."""

    states: list[Any] = field(default_factory=list)
    plain: bool = True


_CURRENT: ContextVar[Turn | None] = ContextVar("modelfleet_turn", default=None)


def added(request: Any, state: Any) -> None:
    """The engine took a sequence of the current request (vllm_plugin calls it)."""
    turn = _CURRENT.get()
    if turn is not None:
        turn.states.append(state)
        turn.plain = turn.plain and not request.mm_features and getattr(request, "cache_salt", None) is None


@dataclass(eq=False)
class _Held:
    tokens: list[int]
    model: str | None
    scope: Scope
    until_s: float
    filled_at: int


class Holder:
    """The sessions that this process holds. Make it where the event loop runs."""

    def __init__(self, folder: Path, app: App) -> None:
        self._folder, self._app = folder, app
        self._counts = HoldCounts(folder)
        self._held: list[_Held] = []
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def turn(self, scope: Scope, hold: Hold | None) -> Iterator[None]:
        """Around one request: afterwards its tokens are held, if its header says so and it went well."""
        if hold is None or not _chosen(scope, hold):
            yield
            return
        turn = Turn()
        token = _CURRENT.set(turn)
        try:
            yield
        finally:
            _CURRENT.reset(token)
        try:
            self._keep(turn, hold, scope)
        except OSError:  # the answer is sent; only the hold is lost
            _log.exception("a session cannot be held")

    def _keep(self, turn: Turn, hold: Hold, scope: Scope) -> None:
        if len(turn.states) != 1 or not turn.plain:
            return
        (state,) = turn.states
        if not state.prompt_token_ids or state.detokenizer is None:
            return
        tokens = [*state.prompt_token_ids, *state.detokenizer.output_token_ids]
        self._came_back(tokens)
        engines = read_engines(self._folder)
        room = hold.max_share_of_cache * sum(engine.kv_total_tokens for engine in engines)
        if len(self._held) >= _MOST or len(tokens) + self._counts.tokens > room:
            self._counts.ended(Ended.NO_ROOM)
            return
        until_s = time.monotonic() + hold.max_gap_s
        held = _Held(tokens, state.lora_name, _application(scope), until_s, _filled(engines))
        self._held.append(held)
        self._counts.held(1, len(tokens))
        if self._task is None:
            # Not in the context of the request just answered: each touch would count as one more of its sequences.
            self._task = asyncio.create_task(self._watch(), context=Context())

    def _came_back(self, tokens: list[int]) -> None:
        for held in tuple(self._held):
            if tokens[: len(held.tokens)] == held.tokens:
                self._drop(held, Ended.RETURNED)

    def _drop(self, held: _Held, why: Ended) -> None:
        if held in self._held:
            self._held.remove(held)
            self._counts.held(-1, -len(held.tokens))
            self._counts.ended(why)

    async def _watch(self) -> None:
        try:
            await self._look_after_them()
        except OSError:  # no file descriptors, for instance
            _log.exception("held sessions are let go")
            for held in tuple(self._held):
                self._drop(held, Ended.REFUSED)
        finally:
            self._task = None

    async def _look_after_them(self) -> None:
        while self._held:
            await asyncio.sleep(_PERIOD_S)
            engines, now_s = read_engines(self._folder), time.monotonic()
            waiting = any(engine.waiting for engine in engines)
            for held in tuple(self._held):
                if now_s >= held.until_s:
                    self._drop(held, Ended.DEADLINE)
                elif waiting:  # others wait for the room
                    self._drop(held, Ended.PRESSURE)
                elif _filled(engines) - held.filled_at >= _AGED * _free_tokens(engines):
                    await self._touch(held)
                    held.filled_at = _filled(read_engines(self._folder))

    async def _touch(self, held: _Held) -> None:
        turn = Turn()
        token = _CURRENT.set(turn)
        try:
            async with asyncio.timeout(_TOUCH_S):
                status = await self._ask(held)
        except TimeoutError:
            status = 0
        except Exception:  # the engine's own handler broke: nothing to hold with, and no reason to end this task
            _log.exception("a held session cannot be touched")
            status = 0
        finally:
            _CURRENT.reset(token)
        cached = turn.states[0].num_cached_tokens if turn.states else 0
        self._counts.touched(len(held.tokens), len(held.tokens) - cached)
        if status != 200:
            self._drop(held, Ended.REFUSED)
        elif cached < len(held.tokens) // 2:
            self._drop(held, Ended.EVICTED)

    async def _ask(self, held: _Held) -> int:
        """A request for one token after these tokens; its status."""
        body: dict[str, Any] = {"prompt": held.tokens, "max_tokens": 1, "temperature": 0}
        if held.model is not None:
            body["model"] = held.model
        status = 0
        left = asyncio.Event()
        whole = [{"type": "http.request", "body": json.dumps(body).encode()}]

        async def receive() -> Message:
            if whole:
                return whole.pop()
            await left.wait()  # nobody leaves
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        await self._app({**held.scope, **_REQUEST, "headers": _headers(len(whole[0]["body"]))}, receive, send)
        return status


def _chosen(scope: Scope, hold: Hold) -> bool:
    name = hold.header.encode()
    return any(key == name and value.decode("latin-1") in hold.values for key, value in scope["headers"])


def _filled(engines: tuple[EngineSeen, ...]) -> int:
    """Tokens that took a place in the cache so far."""
    counted = (Word.PREFIX_QUERIED_TOKENS, Word.GENERATION_TOKENS)
    return sum(
        sum(engine.counts[word] for word in counted) - engine.counts[Word.PREFIX_HIT_TOKENS] for engine in engines
    )


def _free_tokens(engines: tuple[EngineSeen, ...]) -> int:
    return sum(engine.kv_total_tokens - engine.kv_used_tokens for engine in engines)


def _application(scope: Scope) -> Scope:
    """What the engine's application put into a request's scope for its handlers to find."""
    return {key: scope[key] for key in ("app", "state") if key in scope}


def _headers(length: int) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]


_REQUEST: Scope = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "path": "/v1/completions",
    "raw_path": b"/v1/completions",
    "query_string": b"",
    "root_path": "",
    "client": ("127.0.0.1", 0),
    "server": ("127.0.0.1", 0),
}
