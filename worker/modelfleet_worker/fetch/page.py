"""The status port while weights are fetched: the same port and names as the worker's page, which comes after it."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from modelfleet_worker.fetch.progress import Progress
from modelfleet_worker.interfaces import listening_host

_log = logging.getLogger(__name__)


class _Page(Collector):
    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def collect(self) -> Iterable[Metric]:
        there, total = self._progress.there
        text = "Bytes of the model's files that are on the disk."
        yield GaugeMetricFamily("modelfleet_worker_fetch_bytes", text, there)
        text = "Bytes of all of the model's files; 0 before they are listed."
        yield GaugeMetricFamily("modelfleet_worker_fetch_total_bytes", text, total)
        if total:
            text = "Share of the present phase that is done, as the engine or its reading tells; no sample: not known."
            yield GaugeMetricFamily("modelfleet_worker_start_phase_progress_ratio", text, there / total)


@contextmanager
def shown(progress: Progress, port: int) -> Iterator[None]:
    """Serves /metrics on `port` meanwhile; without the port the fetch goes on unseen."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(progress))
    try:
        server, thread = start_http_server(port, listening_host(), registry=registry)
    except OSError as error:
        _log.warning("port %d cannot be opened, so progress is only in the log: %s", port, error)
        yield
        return
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
