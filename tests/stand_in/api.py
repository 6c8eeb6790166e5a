"""The stand-in's HTTP surface as an ASGI application: OpenAI's completions and chat, what vLLM serves beside them."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from stand_in.sequences import Sequence
from stand_in.simulation import RefusedError, Simulation

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

_ADMIN = {"/version", "/load", "/ping", "/scale_elastic_ep"}
_DEFAULT_TOKENS = 16
_ids = itertools.count()


class ProblemError(Exception):
    """An answer that is an error, in vLLM's words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Wanted:
    """A request for tokens."""

    chat: bool
    name: str
    stream: bool
    usage: bool
    id: str
    sequences: list[Sequence]


class Api:
    """The application. `dead`: the engine is gone and only /health and errors are answered."""

    def __init__(self, engine: Simulation) -> None:
        self.engine = engine
        self.dead = False
        self._names: list[str] = engine.options.served_model_name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        path = scope["path"]
        if path in ("/v1/completions", "/v1/chat/completions") and scope["method"] == "POST":
            await self._generate(scope, receive, send)
        elif path == "/tokenize" and scope["method"] == "POST":
            tokens = _tokens(json.loads(await _body(receive)).get("prompt", ""))
            value = {"count": len(tokens), "max_model_len": self.engine.options.max_model_len}
            await _json(send, 200, {**value, "tokens": list(range(len(tokens)))})
        else:
            await self._other(path, send)

    async def _other(self, path: str, send: Send) -> None:
        if path == "/health":
            unhealthy = self.dead or self.engine.knobs.fault == "unhealthy"
            await _respond(send, 503 if unhealthy else 200, b"", "text/plain")
        elif path == "/metrics":
            await _respond(send, 200, self.engine.page.text(), "text/plain; version=0.0.4")
        elif path == "/v1/models":
            length = self.engine.options.max_model_len
            data = [{"id": name, "object": "model", "max_model_len": length} for name in self._names]
            await _json(send, 200, {"object": "list", "data": data})
        elif path in _ADMIN:
            await _respond(send, 200, b"an admin path answered", "text/plain")
        else:
            await _json(send, 404, {"detail": "Not Found"})

    async def _generate(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            wanted = self._wanted(scope, await _body(receive))
            if self.engine.knobs.fault == "silent":
                await asyncio.sleep(3600)
            self.engine.add(wanted.sequences)
        except ProblemError as problem:
            await _problem(send, problem.status, str(problem))
            return
        except RefusedError as refused:
            await _problem(send, 503, str(refused))
            return
        work = asyncio.ensure_future((self._stream if wanted.stream else self._whole)(wanted, send))
        leaving = asyncio.ensure_future(_left(receive))
        await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            self.engine.abort(wanted.sequences)
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await work

    def _wanted(self, scope: Scope, body: bytes) -> Wanted:
        chat = scope["path"] == "/v1/chat/completions"
        try:
            value = json.loads(body)
            name = value.get("model") or self._names[0]  # as vLLM: no name means the model
        except (ValueError, AttributeError) as error:
            raise ProblemError(400, "There was an error parsing the body") from error
        if name not in self._names:
            raise ProblemError(404, f"The model `{name}` does not exist.")
        if self.engine.knobs.fault in ("refusing", "failing"):
            status = 400 if self.engine.knobs.fault == "refusing" else 500
            raise ProblemError(status, "The model does not support Completions API")
        header = dict(scope["headers"]).get(b"x-request-id")
        own = f"{'chatcmpl' if chat else 'cmpl'}-{header.decode() if header else next(_ids)}"
        stream = bool(value.get("stream"))
        usage = bool((value.get("stream_options") or {}).get("include_usage"))
        return Wanted(chat, name, stream, usage, own, self._sequences(value, own, chat, stream))

    def _sequences(self, value: Any, own: str, chat: bool, stream: bool) -> list[Sequence]:
        prompt = _chat_tokens(value.get("messages") or []) if chat else _tokens(value.get("prompt") or "")
        if not prompt:
            raise ProblemError(400, "Either prompt or prompt_embeds must be provided and non-empty.")
        wanted = value.get("max_completion_tokens") or value.get("max_tokens") or _DEFAULT_TOKENS
        if len(prompt) + wanted > self.engine.options.max_model_len:
            length = self.engine.options.max_model_len
            raise ProblemError(
                400,
                f"This model's maximum context length is {length} tokens. However, your request has {len(prompt)}"
                f" input tokens and asks for {wanted} output tokens.",
            )
        interval = self.engine.options.stream_interval if stream else 0
        sequences = [Sequence(f"{own}-{number}", prompt, wanted, interval) for number in range(value.get("n") or 1)]
        for sequence in sequences:
            sequence.sampling_params.prompt_logprobs = value.get("prompt_logprobs")
        return sequences

    async def _whole(self, wanted: Wanted, send: Send) -> None:
        for sequence in wanted.sequences:
            while not sequence.ended:
                await sequence.news.wait()
                sequence.news.clear()
        if any(sequence.ended == "error" for sequence in wanted.sequences):
            await _problem(send, 500, "EngineCore encountered an issue.")
            return
        choices = [
            _choice(wanted, number, _words(0, sequence.done), sequence.ended)
            for number, sequence in enumerate(wanted.sequences)
        ]
        await _json(send, 200, {**_head(wanted, ""), "choices": choices, "usage": _usage(wanted)})

    async def _stream(self, wanted: Wanted, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for event in self._events(wanted):
            data = event if isinstance(event, str) else json.dumps(event)
            await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _events(self, wanted: Wanted) -> AsyncIterator[Any]:
        head = _head(wanted, ".chunk" if wanted.chat else "")
        if wanted.chat:
            for number in range(len(wanted.sequences)):
                yield {**head, "choices": [{"index": number, "delta": {"role": "assistant", "content": ""}}]}
        async for number, start in _news(wanted.sequences):
            sequence = wanted.sequences[number]
            if sequence.ended in ("error", "abort"):
                yield {"error": {"message": "EngineCore encountered an issue.", "code": 500}}
                break
            yield {**head, "choices": [_part(wanted, number, _words(start, sequence.done), sequence.ended)]}
        else:
            if wanted.usage:
                yield {**head, "choices": [], "usage": _usage(wanted)}
        yield "[DONE]"


async def _news(sequences: list[Sequence]) -> AsyncIterator[tuple[int, int]]:
    """The index of a sequence that has news, and how many tokens of it were told before."""
    told = [0] * len(sequences)
    left = set(range(len(sequences)))
    while left:
        waits = [asyncio.ensure_future(sequences[number].news.wait()) for number in left] if len(left) > 1 else []
        if waits:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        else:
            await sequences[next(iter(left))].news.wait()
        for wait in waits:
            wait.cancel()
        for number in sorted(left):
            sequence = sequences[number]
            if sequence.news.is_set():
                sequence.news.clear()
                start, told[number] = told[number], sequence.done
                if sequence.ended:
                    left.discard(number)
                yield number, start


def _head(wanted: Wanted, kind: str) -> dict[str, Any]:
    thing = "chat.completion" if wanted.chat else "text_completion"
    return {"id": wanted.id, "object": thing + kind, "created": int(time.time()), "model": wanted.name}


def _choice(wanted: Wanted, index: int, text: str, ended: str) -> dict[str, Any]:
    said = {"message": {"role": "assistant", "content": text}} if wanted.chat else {"text": text}
    return {"index": index, **said, "finish_reason": ended}


def _part(wanted: Wanted, index: int, text: str, ended: str) -> dict[str, Any]:
    said = {"delta": {"content": text}} if wanted.chat else {"text": text}
    return {"index": index, **said, "finish_reason": ended or None}


def _usage(wanted: Wanted) -> dict[str, Any]:
    prompt = len(wanted.sequences[0].prompt)
    completion = sum(sequence.done for sequence in wanted.sequences)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _words(start: int, end: int) -> str:
    return "".join(f"{number} " for number in range(start, end))


def _tokens(prompt: Any) -> tuple[Any, ...]:
    """A word is a token; ids are taken as they are."""
    return tuple(prompt) if isinstance(prompt, list) else tuple(str(prompt).split())


def _chat_tokens(messages: list[Any]) -> tuple[Any, ...]:
    """Each message has a token for its role before its words."""
    return tuple(
        word for message in messages for word in (f"<{message['role']}>", *str(message.get("content") or "").split())
    )


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _body(receive: Receive) -> bytes:
    whole = b""
    while True:
        message = await receive()
        whole += message.get("body", b"")
        if not message.get("more_body", False):
            return whole


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _json(send: Send, status: int, value: Any) -> None:
    await _respond(send, status, json.dumps(value).encode(), "application/json")


async def _problem(send: Send, status: int, text: str) -> None:
    await _json(send, status, {"error": {"message": text, "type": "error", "param": None, "code": status}})


async def _respond(send: Send, status: int, body: bytes, content_type: str) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
