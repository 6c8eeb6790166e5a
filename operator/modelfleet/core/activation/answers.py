"""What an activator itself answers: errors, events of a stream that waits, the list of models. Pure.

Errors look as the API of the path has them, so that clients' libraries read them: OpenAI's, and Anthropic's under
/v1/messages.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from math import ceil
from typing import Any

from modelfleet.core import raw
from modelfleet.core.activation.holding import Verdict, start_left_s
from modelfleet.core.activation.known import Known

_WAKES = re.compile(r"/v1/(chat/completions|completions|messages(/count_tokens)?|responses)|/(de)?tokenize")
_STREAMS = re.compile(r"/v1/(chat/completions|completions|messages|responses)")
_STREAM_KEY = re.compile(rb'"stream"\s*:\s*true')
_MESSAGES = "/v1/messages"
_RESPONSES = "/v1/responses"
_KINDS = {
    400: "BadRequestError",
    404: "NotFoundError",
    408: "RequestTimeoutError",
    413: "RequestEntityTooLargeError",
    502: "BadGatewayError",
}
_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    404: "not_found_error",
    408: "invalid_request_error",
    413: "request_too_large",
    503: "overloaded_error",
}


def wakes(method: str, path: str) -> bool:
    """Whether a request asks for the engine's work, so that it wakes a model at zero: what workers serve by POST."""
    return method == "POST" and _WAKES.fullmatch(path) is not None


def wants_stream(path: str, body: bytes) -> bool:
    """Whether the answer is asked for as server-sent events. A quick look first: in a string's text the quotes would be
    escaped, so what does not match has no such key."""
    if _STREAMS.fullmatch(path) is None or _STREAM_KEY.search(body) is None:
        return False
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, Mapping) and value.get("stream") is True


def error_body(path: str, status: int, message: str) -> bytes:
    """An error as clients of the path's API read it."""
    return json.dumps(_error(path, status, message)).encode()


def refusal_headers(verdict: Verdict) -> dict[str, str]:
    """Headers of a refusal."""
    after = {"Retry-After": str(verdict.retry_after_s)} if verdict.retry_after_s is not None else {}
    return {"Content-Type": "application/json", **after}


def waiting_comment(model: Known, now: datetime) -> bytes:
    """A comment of a stream that waits: clients pass over it, proxies see that the connection lives."""
    left_s = start_left_s(model.outlook, now)
    said = f", about {ceil(left_s)} s left" if left_s else ""  # nothing is known of a start that is late
    return f": {model.served_names[0]} is starting{said}\n\n".encode()


def error_event(path: str, status: int, message: str, retry_after_s: int | None = None) -> bytes:
    """The end of a stream whose status was sent already: an error as an event, then what ends a stream of this API.

    Without a header to put it in, Retry-After is told in the sentence.
    """
    said = message if retry_after_s is None else f"{message}; try again in {retry_after_s} s"
    if path == _RESPONSES:
        error: dict[str, Any] = {"type": "error", "code": str(status), "message": said, "param": None}
    else:
        error = _error(path, status, said)
    data = f"data: {json.dumps(error)}\n\n"
    if path in (_MESSAGES, _RESPONSES):
        return f"event: error\n{data}".encode()
    return f"{data}data: [DONE]\n\n".encode()


def models(model: Known) -> bytes:
    """GET /v1/models of a model at zero."""
    made = raw.instant({"at": model.created}, "at")
    created_s = int(made.timestamp()) if made is not None else 0
    data = [
        {"id": name, "object": "model", "created": created_s, "owned_by": "modelfleet", "root": name, "parent": None}
        for name in model.served_names
    ]
    return json.dumps({"object": "list", "data": data}).encode()


def identity(model: Known, activator: str) -> bytes:
    """The answer to the probe by which the operator proves that a model's Service reaches an activator."""
    told = {"activator": activator, "uid": model.uid, "namespace": model.namespace, "name": model.name}
    return json.dumps({**told, "port": model.port}).encode()


def _error(path: str, status: int, message: str) -> dict[str, Any]:
    if path.startswith(_MESSAGES):
        return {"type": "error", "error": {"type": _ANTHROPIC_KINDS.get(status, "api_error"), "message": message}}
    kind = _KINDS.get(status, "ServiceUnavailableError")
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def message_of(body: bytes) -> str:
    """The sentence of an error that a worker answered with."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    error = raw.at(value, "error")
    for found in (raw.text(error, "message"), raw.text(value, "message"), error):
        if isinstance(found, str) and found:
            return found
    return body[:200].decode(errors="replace").strip() or "the worker refused the request"
