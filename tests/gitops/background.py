"""Programs that run beside a test: a controller with its log, a folder served over HTTP."""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

END_S = 30.0


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found: int = listener.getsockname()[1]
        return found


@contextmanager
def running(
    name: str, argv: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None
) -> Iterator[Path]:
    """Runs a program until the block ends; gives its log. A program that ended by itself fails the test."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *argv],  # it ends with us, also when we are killed
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=folder,
        )
        try:
            yield log
            assert process.poll() is None, f"{name} ended by itself:\n{log.read_text()[-4000:]}"
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_S)


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder over HTTP on loopback; gives the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
