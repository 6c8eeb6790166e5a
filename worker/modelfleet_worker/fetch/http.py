"""The one way in which bytes come from a server: HTTP with ranges, a bound on silence, and errors in two kinds."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import httpx2

from modelfleet_worker.failure import Reason
from modelfleet_worker.fetch.remote import Body, FetchError, TransientError

_REDIRECTS = 5
_LONGEST_WAIT_S = 120.0
_TRANSIENT = frozenset({408, 425, 429})
_REMEDY = "Name a Secret with credentials that may read it in spec.model.credentialsSecretRef."
_EXPIRED = b"<Code>ExpiredToken</Code>"


class UnauthorizedError(FetchError):
    """401. `challenge` is what the server asks for, in its words."""

    def __init__(self, what: str, challenge: str) -> None:
        super().__init__(Reason.CREDENTIALS_REFUSED, f"The server refuses {what} (HTTP 401).", _REMEDY)
        self.challenge = challenge


@dataclass(frozen=True)
class Request:
    """A GET of a file. `what` names it in sentences."""

    url: str
    what: str
    headers: Mapping[str, str]


def client(read_s: float, transport: httpx2.BaseTransport | None = None) -> httpx2.Client:
    """A client that gives up after `read_s` seconds without a byte. `transport`: None for the network."""
    # It logs every address, and an address may be signed.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    timeout = httpx2.Timeout(read_s, connect=min(read_s, 15.0), pool=None)
    hooks = {"response": [_keep_tls]}
    return httpx2.Client(
        timeout=timeout, follow_redirects=True, max_redirects=_REDIRECTS, event_hooks=hooks, transport=transport
    )


def _keep_tls(answer: httpx2.Response) -> None:
    """Raises FetchError where a server sends on to something else than HTTP, or from TLS to an address without."""
    scheme = re.match(r"\s*([a-z][a-z0-9+.-]*):", answer.headers.get("location", "").lower())
    if not answer.is_redirect or scheme is None or scheme[1] == "https" or scheme[1] == answer.request.url.scheme:
        return
    to = "an address without TLS" if scheme[1] == "http" else f"a {scheme[1][:20]} address"
    raise FetchError(
        Reason.FETCH_FAILED,
        f"{answer.request.url.host} sends on to {to}.",
        "Look at the server; see spec.model.endpoint and spec.model.source.",
    )


@contextmanager
def get(http: httpx2.Client, request: Request, offset: int, length: int | None) -> Iterator[Body]:
    """The answer from byte `offset` on. Raises FetchError or TransientError, also while chunks are read."""
    # Without "identity" a server may compress, and then ranges and sizes mean something else.
    headers = {**request.headers, "Accept-Encoding": "identity"}
    if offset or length is not None:
        headers["Range"] = f"bytes={offset}-" + (f"{offset + length - 1}" if length is not None else "")
    try:
        with http.stream("GET", request.url, headers=headers) as answer:
            _check_lifetime(answer, request.what)
            check_status(answer, request.what)
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise TransientError(f"{request.what} was sent compressed, although that was not asked for")
            yield Body(_start(answer, offset), dict(answer.headers), _chunks(answer))
    except httpx2.HTTPError as error:
        raise TransientError(f"{request.what}: {said(error)}") from error
    except httpx2.InvalidURL as error:
        raise FetchError(Reason.MODEL_NOT_FOUND, f"{request.what}: {error}.", "Correct spec.model.endpoint.") from error


def said(error: Exception) -> str:
    """An HTTP library's error in words of ours: its own may be empty, or show a header with a token."""
    if isinstance(error, httpx2.LocalProtocolError):
        return "the request cannot be sent as it is"
    if isinstance(error, httpx2.ReadTimeout):
        return "the server sent nothing for too long"
    if isinstance(error, httpx2.ConnectTimeout | httpx2.ConnectError):
        return f"the server cannot be reached ({str(error) or type(error).__name__})"
    return str(error) or type(error).__name__


def check_status(answer: httpx2.Response, what: str) -> None:
    """Raises FetchError or TransientError for a status that is not 2xx."""
    status = answer.status_code
    if status in (200, 206):
        return
    if status == 401:
        raise UnauthorizedError(what, _challenge(answer))
    if status == 403:
        raise refused(f"The server refuses {what} (HTTP {status})")
    if status in (404, 410):
        raise FetchError(
            Reason.MODEL_NOT_FOUND, f"The server has no {what} (HTTP {status}).", "Correct spec.model.source."
        )
    if status in _TRANSIENT or status >= 500:
        raise TransientError(f"{what}: the server answers HTTP {status}", _retry_after_s(answer))
    raise FetchError(
        Reason.FETCH_FAILED,
        f"The server answers HTTP {status} for {what}.",
        "Look at the server; see spec.model.endpoint and spec.model.source.",
    )


def refused(message: str) -> FetchError:
    """Credentials that are missing, wrong, or of somebody who may not."""
    return FetchError(Reason.CREDENTIALS_REFUSED, f"{message}.", _REMEDY)


def _challenge(answer: httpx2.Response) -> str:
    """Empty where another server than the one that was asked wants credentials: they are none of its business."""
    asked = answer.history[0].url.host if answer.history else answer.url.host
    return str(answer.headers.get("www-authenticate", "")) if answer.url.host == asked else ""


def _check_lifetime(answer: httpx2.Response, what: str) -> None:
    """Raises FetchError where temporary credentials are over: object stores say 400 and a code of theirs to that."""
    if answer.status_code == 400 and _EXPIRED in b"".join(islice(_chunks(answer), 8)):
        raise FetchError(
            Reason.CREDENTIALS_REFUSED,
            f"The temporary credentials for {what} are over (HTTP 400, ExpiredToken).",
            "Write new ones into the Secret; they have to live as long as the fetch takes. It goes on where it was.",
        )


def _start(answer: httpx2.Response, offset: int) -> int:
    if answer.status_code == 200:
        return 0
    match = re.match(r"bytes (\d+)-", answer.headers.get("content-range", ""))
    if match is None or int(match[1]) != offset:
        raise TransientError("the server answers another range than was asked for")
    return offset


def _chunks(answer: httpx2.Response) -> Iterator[bytes]:
    try:
        yield from answer.iter_raw()  # as they come: what waits to fill a block is lost in a reset
    except httpx2.HTTPError as error:
        raise TransientError(said(error)) from error


def _retry_after_s(answer: httpx2.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return min(float(text), _LONGEST_WAIT_S) if re.fullmatch(r"\d{1,6}(\.\d+)?", text) else 0.0
