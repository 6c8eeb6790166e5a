"""`modelfleet predict` in a terminal: what it shows while it takes long, and what Ctrl-C does."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_RUN = "import sys; from modelfleet.cli.main import main; sys.exit(main(sys.argv[1:]))"
_PATIENCE_S = 120.0


@dataclass
class Running:
    """A command whose standard error is a terminal and whose rows come one by one."""

    process: subprocess.Popen[bytes]
    terminal: int
    output: Path

    def feed(self, row: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{row}\n".encode())
        self.process.stdin.flush()

    def shown(self, within_s: float = 0.0) -> str:
        """What the terminal got since it was asked last."""
        ready, _, _ = select.select([self.terminal], [], [], within_s)
        return os.read(self.terminal, 4096).decode() if ready else ""

    def shows(self, words: str) -> bool:
        """Feeds a row every now and then until the terminal shows these words."""
        text, end = "", time.monotonic() + _PATIENCE_S
        while words not in text and time.monotonic() < end:
            self.feed("Llama-3.1-8B,h100-sxm")
            text += self.shown(within_s=0.3)
        return words in text


def _hears_ctrl_c() -> None:
    """A shell's background job, as a test run may be, hands down that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    terminal, inner = pty.openpty()
    command = [sys.executable, "-c", _RUN, "predict", "-f", "-", "-o", str(tmp_path / "out.csv")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=inner, preexec_fn=_hears_ctrl_c)
    os.close(inner)
    yield Running(process, terminal, tmp_path / "out.csv")
    process.kill()
    process.wait()
    os.close(terminal)


def test_a_count_is_shown_when_it_takes_long_and_taken_away_at_the_end(running: Running):
    running.feed("model,class")
    assert running.shows(" rows")
    assert running.process.stdin is not None
    running.process.stdin.close()
    assert running.process.wait(_PATIENCE_S) == 0
    assert running.shown(within_s=1.0).endswith("\r\x1b[K")
    assert running.output.read_text().startswith("model,class,ttft_ms,")


def test_ctrl_c_ends_it_in_a_sentence_and_leaves_no_half_a_file(running: Running):
    running.feed("model,class")
    assert running.shows(" rows")
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(_PATIENCE_S) == 130
    assert running.shown(within_s=1.0).replace("\r\n", "\n").endswith("modelfleet: stopped\n")
    assert list(running.output.parent.iterdir()) == []
