"""Debian's Prometheus as a process of its own, and a server of pages that it scrapes every second."""

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
import yaml
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from modelfleet_local.paths import cache_dir
from modelfleet_local.prometheus import require_prometheus
from prometheus_cases import Target
from worker_process import free_port

_PATIENCE_S = 60.0  # it takes up to ten seconds to notice another list of targets, three more to forget the old ones
_END_S = 30.0
_ALIGNED_S = 0.01  # it moves the time of a scrape by up to 2 ms


class PageServer:
    """Texts by path, over HTTP on loopback, and when each was asked for; a path without a text is 404."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.asked: dict[str, list[float]] = {}
        self.address = ""

    @contextmanager
    def served(self) -> Iterator["PageServer"]:
        pages = self

        class _Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages.asked.setdefault(self.path, []).append(time.time())
                text = pages.texts.get(self.path)
                self.send_response(404 if text is None else 200)
                self.send_header("Content-Type", CONTENT_TYPE_LATEST)
                with suppress(ConnectionError):  # a server that ends amidst a scrape
                    self.end_headers()
                    self.wfile.write((text or "").encode())

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            self.address = f"127.0.0.1:{server.server_address[1]}"
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


@dataclass
class RealPrometheus:
    """One server, in a folder of its own. It listens on loopback alone."""

    folder: Path
    pages: PageServer
    scheme: str = "http"
    verify: str | bool = True
    port: int = field(default_factory=free_port)
    _paths: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)
    _told: set[frozenset[tuple[str, str]]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def now(self) -> float:
        return time.time()

    @property
    def log(self) -> Path:
        return self.folder / "log"

    async def scrape(self, *pages: tuple[Target, str]) -> None:
        """From now on it scrapes these pages and no others; returns when it has, and has forgotten the others."""
        targets = []
        for labels, text in pages:
            path = self._paths.setdefault(tuple(sorted(labels.items())), f"/{len(self._paths)}")
            self.pages.texts[path] = text
            targets.append((self.pages.address, {**labels, "__metrics_path__": path}))
        self.tell(*targets)
        await self.has_scraped()

    def tell(self, *targets: tuple[str, Target]) -> None:
        """Addresses and labels of all that it is to scrape; labels have `job` and `instance`."""
        draft = self.folder / "targets.json.new"
        draft.write_text(json.dumps([{"targets": [address], "labels": dict(labels)} for address, labels in targets]))
        draft.rename(self.folder / "targets.json")
        self._told = {frozenset((k, v) for k, v in labels.items() if not k.startswith("__")) for _, labels in targets}

    async def has_scraped(self) -> None:
        """Waits until it has scraped each target that it was told of after this call, and knows no other."""
        since = self.now + _ALIGNED_S
        await self.until(lambda: self._has_scraped(since))

    def _has_scraped(self, since: float) -> bool:
        found = {frozenset(each["metric"].items()): float(each["value"][1]) for each in self.query("timestamp(up)")}
        return found.keys() == self._told and all(at >= since for at in found.values())

    def query(self, query: str) -> list[dict[str, Any]]:
        """Asked by other means than the operator's."""
        answer = requests.get(f"{self.url}/api/v1/query", {"query": query}, timeout=10, verify=self.verify)
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        """Raises AssertionError with the server's log if it does not come to that."""
        deadline = time.monotonic() + _PATIENCE_S
        while not await asyncio.to_thread(holds):
            assert time.monotonic() < deadline, f"it did not come to that; Prometheus says\n{self.log.read_text()}"
            await asyncio.sleep(0.1)

    @contextmanager
    def running(self, *flags: str, scraping: bool = True, web: Mapping[str, Any] | None = None) -> Iterator[None]:
        """The process, for the time of the block; what it stored stays for the next."""
        (self.folder / "web.yaml").write_text(yaml.safe_dump(dict(web or {})))
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(_configuration(scraping)))
        if not (self.folder / "targets.json").exists():
            self.tell()
        with self.log.open("ab") as log:
            process = subprocess.Popen(self._argv(flags), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self._wait_ready(process)
            yield
            assert process.poll() is None, f"it ended by itself:\n{self.log.read_text()}"
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_END_S)

    def _argv(self, flags: Sequence[str]) -> list[str]:
        own = {
            "config.file": self.folder / "prometheus.yaml",
            "web.config.file": self.folder / "web.yaml",
            "storage.tsdb.path": self.folder / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
        }
        program = str(require_prometheus(cache_dir()))
        leash = ["setpriv", "--pdeathsig", "TERM"]  # it ends with us, also when we are killed
        return [*leash, program, *(f"--{name}={value}" for name, value in own.items()), *flags]

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._is_ready():
            assert process.poll() is None, f"Prometheus ended:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"it did not become ready:\n{self.log.read_text()}"
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"{self.url}/-/ready", timeout=5, verify=self.verify).status_code == 200
        except requests.RequestException:
            return False


def _configuration(scraping: bool) -> dict[str, Any]:
    found = {"files": ["targets.json"], "refresh_interval": "1s"}
    jobs = [{"job_name": "workers", "scrape_interval": "1s", "scrape_timeout": "1s", "file_sd_configs": [found]}]
    return {"scrape_configs": jobs if scraping else []}
