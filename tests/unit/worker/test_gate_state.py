"""The counts that gate and supervisor share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import modelfleet_worker
from modelfleet_worker.gate_state import Board, Counter, Mode, ModeReader, Outcome
from modelfleet_worker.goodput import Share, Verdict
from modelfleet_worker.promise import parse_promise
from modelfleet_worker.tally import Tally, read_tally

PROMISE = '{"digest": "0123456789ab", "objectives": [{"name": "chat", "ttft_s": 0.5, "tpot_s": 0.05}]}'

CODE = str(Path(str(modelfleet_worker.__file__)).parents[1])
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
    command = [sys.executable, "-I", "-S", "-c", _OTHER, CODE, str(tmp_path)]
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


def _counted_before(folder: Path) -> None:
    """What an earlier container left: three requests, one of them in flight, and its promise."""
    board = Board(folder)
    board.set_promise(parse_promise(PROMISE), PROMISE)
    counter, tally = Counter(folder), Tally(folder, parse_promise(PROMISE))
    for _ in range(3):
        counter.begin()
        tally.begin(None)
    counter.end(Outcome.COMPLETED)
    counter.end(Outcome.REFUSED)


def _counts(board: Board) -> tuple[dict[str, int], int, int]:
    assert board.promise is not None
    (chat,) = read_tally(board.folder, board.promise).objectives
    ended = {outcome.value: count for outcome, count in board.read().ended.items() if count}
    return ended, chat.arrivals, chat.ended[Share.PROMISE][Verdict.FAILED]


# It ends before its file operation of a number, as by a kill.
_CLOSES = """
import os, sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from modelfleet_worker.gate_state import Board
left = int(sys.argv[3])
def hook(event, _):
    global left
    if event in ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir"):
        left -= 1
        if not left:
            os._exit(9)
sys.addaudithook(hook)
Board(Path(sys.argv[2]))
"""


def test_a_kill_at_any_file_operation_while_books_are_closed_counts_nothing_twice(tmp_path: Path) -> None:
    operations, code = 0, 9
    while code == 9:
        operations += 1
        folder = tmp_path / str(operations) / "gate"
        _counted_before(folder)
        command = [sys.executable, "-I", "-S", "-c", _CLOSES, CODE, str(folder), str(operations)]
        code = subprocess.run(command, check=False).returncode
        assert _counts(Board(folder)) == ({"completed": 1, "refused": 1, "server_error": 1}, 3, 3), operations
        assert os.listdir(folder.parent) == ["gate"]
    assert (code, operations > 8) == (0, True)
