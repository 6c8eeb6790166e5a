"""Reads the same pages from a Prometheus: one query for the whole fleet. I/O: HTTP to the server of the settings.

The series of one target are one page: they share what Prometheus adds to each (instance, job, pod …). What a page says
of itself (which pod it is of) comes along as a series, so identity does not rest on anybody's relabelling.
"""

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from math import isfinite
from time import monotonic
from typing import Any

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from modelfleet.controller.metrics.scrape import UnreadError
from modelfleet.controller.metrics.settings import Server
from modelfleet.core.scaling import step_samples
from modelfleet.core.scaling.page import NAMES, Origin, Slot, origins, slot

_log = logging.getLogger(__name__)

TIMEOUT_S = 10
"""Of a query, in which nothing comes. It asks for some 80 series a worker."""

ENDS_S = 30.0
"""Of an answer that goes on coming."""

MOST_BYTES = 256 << 20
"""Of an answer: 10,000 workers have some 25 kB each."""

_STAMP = "modelfleet_stamp"


def _query(series: Iterable[str]) -> str:
    return (
        f'{{__name__=~"{"|".join(series)}"}}'
        f' or label_replace(timestamp(modelfleet_worker_pod_info), "{_STAMP}", "sample", "", "")'
    )


QUERY = _query(NAMES)
"""Every series of every worker as of now, and for each worker when its page was read: an instant query says of a sample
only when it was asked for."""
STEPS_QUERY = _query((*NAMES, *step_samples.NAMES))
"""The same with the engines' steps."""

_OWN = frozenset(
    {
        "promise",
        "objective",
        "outcome",
        "apart",
        "le",
        "kv",
        "phase",
        "state",
        "revision",
        "worker_pod",
        "worker_pod_uid",
        *step_samples.LABELS,
    }
)
_EXPORTED = "exported_"
_MESSAGE = re.compile(r'"error":\s*"([^"\\]+)')


@dataclass(frozen=True, kw_only=True)
class Page:
    """The page of one worker as Prometheus read it, `age_s` ago, which was at `read_at` by its own clock."""

    origin: Origin
    found: Mapping[Slot, float]
    age_s: float
    read_at: float


@dataclass
class _Target:
    found: dict[Slot, float] = field(default_factory=dict)
    read_at: float | None = None
    asked_at: float = 0.0


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

    async def pages(self, *, steps: bool = False) -> tuple[Page, ...]:
        """The pages of all workers that it knows, with their `steps` where they are wanted. Raises UnreadError."""
        return await asyncio.to_thread(self._pages, STEPS_QUERY if steps else QUERY)

    def _pages(self, query: str) -> tuple[Page, ...]:
        self._read_files()
        try:
            answer = self._connect.custom_query(query)
            return tuple(pages(answer))
        except PrometheusApiClientException as error:
            raise UnreadError(f"Prometheus refuses the query: {_words(str(error))}") from error
        except requests.RequestException as error:
            raise UnreadError(f"Prometheus cannot be asked ({type(error).__name__})") from error
        except OSError as error:  # what requests raises for a file that is not there
            raise UnreadError(f"the certificate authority for Prometheus cannot be read: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UnreadError("what answers at the address of Prometheus is none") from error

    def _read_files(self) -> None:
        self._session.verify = str(self._server.authority) if self._server.authority is not None else True
        if self._server.token is None:
            return
        try:
            self._connect.headers = {"Authorization": f"Bearer {self._server.token.read_text().strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            raise UnreadError(f"the token for Prometheus cannot be read: {error}") from error


class _Bounded(requests.Session):
    """Answers that end, in bytes and in time: by itself the library waits as long as something drips."""

    def __init__(self, most_bytes: int, ends_s: float) -> None:
        super().__init__()
        self._most_bytes, self._ends_s = most_bytes, ends_s

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


def pages(answer: Iterable[Mapping[str, Any]]) -> Iterator[Page]:
    """The pages in an instant vector, by target. A target whose page was read at an unknown time is left out."""
    targets: dict[frozenset[tuple[str, str]], _Target] = {}
    for each in answer:
        name, own, target = _split(each["metric"])
        asked_at, value = float(each["value"][0]), float(each["value"][1])
        entry = targets.setdefault(target, _Target())
        if not name:
            entry.read_at, entry.asked_at = value, asked_at
            continue
        where = slot(name, own)
        if where is not None:
            entry.found[where] = value
    for entry in targets.values():
        if entry.read_at is not None and isfinite(entry.read_at):
            age_s = max(0.0, entry.asked_at - entry.read_at)
            # Of several pods the page is none, and each is told so when it is read.
            for named in origins(entry.found) or (Origin(),):
                yield Page(origin=named, found=entry.found, age_s=age_s, read_at=entry.read_at)


def _split(metric: Mapping[str, str]) -> tuple[str, dict[str, str], frozenset[tuple[str, str]]]:
    """Name, the labels that the worker gave, and those of its target.

    Where both gave one, Prometheus keeps the worker's under the name exported_…; a target's own that is called like one
    of ours says nothing about which target it is.
    """
    own, target = {}, []
    for label, value in metric.items():
        bare = label.removeprefix(_EXPORTED)
        if bare in _OWN:
            if label != bare or _EXPORTED + label not in metric:
                own[bare] = value
        elif label not in ("__name__", _STAMP):
            target.append((label, value))
    return metric.get("__name__", ""), own, frozenset(target)
