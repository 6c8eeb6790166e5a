"""The counts that gate and supervisor share."""

import subprocess
import sys
from pathlib import Path

import pytest

import modelfleet_worker
from modelfleet_worker.gate_state import Board, Counter, Mode, ModeReader, Outcome

# A process of its own, as an API server is; `-I -S`: without any package but ours, as in the engine.
_OTHER = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
import modelfleet_worker.gate
from modelfleet_worker.gate_state import Counter, Outcome
counter = Counter(Path(sys.argv[2]))
for _ in range(3): counter.begin()
counter.end(Outcome.COMPLETED)
print("counted", flush=True)
sys.stdin.read()
"""


def test_counts_of_a_process_that_died_stay_but_nothing_of_it_is_in_flight(tmp_path: Path) -> None:
    board, own = Board(tmp_path), Counter(tmp_path)
    own.begin()
    code = str(Path(str(modelfleet_worker.__file__)).parents[1])
    command = [sys.executable, "-I", "-S", "-c", _OTHER, code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "counted\n"
        counts = board.read()
        assert (counts.gates, counts.in_flight, counts.ended[Outcome.COMPLETED]) == (2, 3, 1)
        other.kill()
    counts = board.read()
    assert (counts.gates, counts.in_flight, counts.ended[Outcome.COMPLETED]) == (1, 1, 1)


@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.name)
def test_a_mode_is_seen_at_once(tmp_path: Path, mode: Mode) -> None:
    board = Board(tmp_path)
    reader = ModeReader(tmp_path)
    board.set_mode(mode)
    assert reader() is mode


def test_a_new_board_forgets_an_earlier_container(tmp_path: Path) -> None:
    Board(tmp_path).set_mode(Mode.REFUSE)
    Counter(tmp_path).begin()
    board = Board(tmp_path)
    assert (ModeReader(tmp_path)(), board.read().in_flight, board.read().gates) == (Mode.SERVE, 0, 0)


def test_a_file_that_is_not_yet_sized_is_left_out(tmp_path: Path) -> None:
    board = Board(tmp_path)
    (tmp_path / "counts-1").touch()
    assert board.read().gates == 0
