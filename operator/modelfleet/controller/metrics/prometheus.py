"""Reads the same pages from a Prometheus: one query for 100 workers. I/O: HTTP to the server of the settings.

Each answer is made into pages, and these taken, before the next is asked for, so the memory that it takes does not grow
with the fleet.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from time import monotonic
from typing import Any

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from modelfleet.controller.metrics.queries import PART, QUERY, STEPS_QUERY, WHO_QUERY, part, selectors
from modelfleet.controller.metrics.scrape import UnreadError
from modelfleet.controller.metrics.settings import Server
from modelfleet.controller.metrics.vector import Page, pages, stamps_alone, targets

_log = logging.getLogger(__name__)

TIMEOUT_S = 10
"""Of a query, in which nothing comes. It asks for some 80 series a worker."""

ENDS_S = 30.0
"""Of an answer that goes on coming."""

MOST_BYTES = 64 << 20
"""Of an answer: the series of 100 workers are some 25 kB each, of many objectives some 350. Parsed they take five times
as much."""

_MESSAGE = re.compile(r'"error":\s*"([^"\\]+)')


@dataclass(frozen=True, kw_only=True)
class _First:
    """What the first query brought: all pages, or what to ask for them by, and as of when."""

    pages: tuple[Page, ...] = ()
    selectors: tuple[str, ...] = ()
    at: str = ""


class Prometheus:
    """One server."""

    def __init__(self, server: Server, most_bytes: int = MOST_BYTES, ends_s: float = ENDS_S) -> None:
        """`most_bytes` and `ends_s` bound an answer."""
        self._server = server
        session = _Bounded(most_bytes, ends_s)
        session.trust_env = False  # no proxy and no .netrc of this process's environment
        session.max_redirects = 0
        self._connect = PrometheusConnect(
            server.url.rstrip("/"), session=session, retry=Retry(total=0), timeout=TIMEOUT_S, method="POST"
        )
        self._session = session

    async def pages(self, uids: Set[str], *, steps: bool = False) -> AsyncIterator[tuple[Page, ...]]:
        """The pages of these pods, some at a time, with their `steps` where they are wanted. All are as of the moment
        of the first query, and pages of others may be among them. Raises UnreadError, for one part that is refused once
        the others were read."""
        whole = STEPS_QUERY if steps else QUERY
        first = await asyncio.to_thread(self._first, whole if len(uids) <= PART else WHO_QUERY, uids)
        yield first.pages
        trouble, failed = None, False
        for selector in first.selectors:
            try:
                pages = await asyncio.to_thread(self._part, part(selector, steps=steps), first.at)
            except UnreadError as error:
                if failed:
                    raise  # two in a row: it is the server
                trouble, failed = error, True
            else:
                failed = False
                yield pages
        if trouble is not None:
            raise trouble

    def _first(self, query: str, uids: Set[str]) -> "_First":
        with _sentences():
            answer = self._answer(query)
            if not answer or not stamps_alone(answer):
                return _First(pages=tuple(pages(answer)))
            at = repr(float(answer[0]["value"][0]))
            return _First(selectors=tuple(selectors(targets(answer, uids))), at=at)

    def _part(self, query: str, at: str) -> tuple[Page, ...]:
        with _sentences():
            return tuple(pages(self._answer(query, at)))

    def _answer(self, query: str, at: str = "") -> list[dict[str, Any]]:
        self._read_files()
        found: list[dict[str, Any]] = self._connect.custom_query(query, {"time": at} if at else {})
        return found

    def _read_files(self) -> None:
        self._session.verify = str(self._server.authority) if self._server.authority is not None else True
        if self._server.token is None:
            return
        try:
            self._connect.headers = {"Authorization": f"Bearer {self._server.token.read_text().strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            raise UnreadError(f"the token for Prometheus cannot be read: {error}") from error


@contextmanager
def _sentences() -> Iterator[None]:
    """Makes an UnreadError of whatever asking ended by."""
    try:
        yield
    except PrometheusApiClientException as error:
        raise UnreadError(f"Prometheus refuses the query: {_words(str(error))}") from error
    except requests.RequestException as error:
        raise UnreadError(f"Prometheus cannot be asked ({type(error).__name__})") from error
    except OSError as error:  # what requests raises for a file that is not there
        raise UnreadError(f"the certificate authority for Prometheus cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadError("what answers at the address of Prometheus is none") from error


class _Bounded(requests.Session):
    """Answers that end, in bytes and in time: by itself the library waits as long as something drips."""

    def __init__(self, most_bytes: int, ends_s: float) -> None:
        super().__init__()
        self._most_bytes, self._ends_s = most_bytes, ends_s

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """What is asked goes along as a form: the library puts it into the address, and proxies bound those."""
        request.data, request.params = request.params, {}
        return super().prepare_request(request)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Raises UnreadError for an answer that does not end."""
        ends_s, body = monotonic() + self._ends_s, bytearray()
        response = super().send(request, **{**kwargs, "stream": True})
        try:
            while part := response.raw.read1(1 << 16, decode_content=True):
                body += part
                if len(body) > self._most_bytes:
                    raise UnreadError(f"what Prometheus answers has more than {self._most_bytes >> 20} MiB")
                if monotonic() > ends_s:
                    raise UnreadError(f"what Prometheus answers does not end within {self._ends_s:g} s")
        except HTTPError as error:  # of urllib3, which the library would have translated
            raise requests.ConnectionError(error) from error
        except UnreadError:
            response.close()
            raise
        response.raw.release_conn()
        response.raw = BytesIO(body)
        return response


def _words(refusal: str) -> str:
    """What a server says in its refusal: the message in the JSON that Prometheus answers, else all that came."""
    said = _MESSAGE.search(refusal)
    return " ".join((said[1] if said is not None else refusal).split())[:200]
