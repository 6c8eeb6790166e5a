"""The page while weights are fetched: reached in both families of addresses, and no reason to end."""

import socket
import urllib.request
from pathlib import Path

from modelfleet_worker.fetch.page import shown
from modelfleet_worker.fetch.progress import Progress
from modelfleet_worker.interfaces import listening_host
from worker_process import free_port


def test_bytes_are_shown_to_whichever_family_of_addresses_asks(tmp_path: Path) -> None:
    progress, port = Progress(tmp_path), free_port()
    progress.begin(30, 100)
    hosts = ["127.0.0.1", *(["[::1]"] if listening_host() == "::" else [])]
    with shown(progress, port):
        for host in hosts:
            with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
                page = answer.read().decode()
            assert "modelfleet_worker_fetch_bytes 30.0" in page
            assert "modelfleet_worker_start_phase_progress_ratio 0.3" in page


def test_a_taken_port_costs_the_page_alone(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken, shown(Progress(tmp_path), taken.getsockname()[1]):
        assert (tmp_path / "fetch.json").exists()
