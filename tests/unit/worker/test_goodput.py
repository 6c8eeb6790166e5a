"""Whether a request kept its promise, and what is counted of it."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import modelfleet_worker
from modelfleet_worker.gate_state import Board, Counter, Outcome
from modelfleet_worker.goodput import Ending, Measured, Share, Verdict, judge, share
from modelfleet_worker.ledger import Request, Sequence
from modelfleet_worker.promise import Objective, Promise, PromiseError, parse_promise
from modelfleet_worker.tally import Tally, read_tally

CHAT = Objective(name="chat", ttft_s=0.5, tpot_s=0.05, input_max_tokens=100, input_edges=(10, 20), output_edges=(5,))
PROMISE = Promise(digest="0123456789ab", objectives=(CHAT, Objective(name="batch", ttft_s=9.0, tpot_s=1.0)))


@pytest.mark.parametrize(
    ("ttft_s", "tpot_s", "verdict"),
    [
        pytest.param(0.1, 0.01, Verdict.MET, id="inside both is met"),
        pytest.param(0.5, 0.05, Verdict.MET, id="exactly the limits are inside"),
        pytest.param(0.5001, 0.01, Verdict.LATE_TTFT, id="the first token was late"),
        pytest.param(0.1, 0.0501, Verdict.LATE_TPOT, id="the tokens after it were slow"),
        pytest.param(0.6, 0.06, Verdict.LATE_BOTH, id="both"),
        pytest.param(0.1, 0.0, Verdict.MET, id="an answer of one token has no time per token"),
    ],
)
def test_a_finished_request(ttft_s: float, tpot_s: float, verdict: Verdict) -> None:
    assert judge(CHAT, Share.PROMISE, Ending.FINISHED, Measured(ttft_s, tpot_s, 1, 1)) is verdict


@pytest.mark.parametrize("ending", [one for one in Ending if one is not Ending.FINISHED])
def test_a_request_that_did_not_finish_is_counted_as_what_it_is_however_fast(ending: Ending) -> None:
    assert judge(CHAT, Share.PROMISE, ending, Measured(0.0, 0.0, 1, 1)).value == ending.value


@pytest.mark.parametrize(
    ("waited_s", "verdict"),
    [
        pytest.param(0.5, Verdict.ABORTED, id="inside the limit"),
        pytest.param(0.6, Verdict.FAILED, id="when its first token was late already"),
    ],
)
def test_a_client_gave_up(waited_s: float, verdict: Verdict) -> None:
    assert judge(CHAT, Share.PROMISE, Ending.ABORTED, None, waited_s) is verdict


EXCUSED = replace(CHAT, first_caller_waits_s=60.0)


@pytest.mark.parametrize(
    ("objective", "tokens", "at_zero", "counts_in"),
    [
        pytest.param(CHAT, 100, False, Share.PROMISE, id="the longest promised prompt counts"),
        pytest.param(CHAT, 101, False, Share.LONGER, id="one token more stands apart"),
        pytest.param(CHAT, 0, False, Share.PROMISE, id="a request refused before its prompt was read counts"),
        pytest.param(CHAT, 1, True, Share.PROMISE, id="a first caller counts where none is excused"),
        pytest.param(EXCUSED, 1, True, Share.FIRST_CALLER, id="an excused first caller stands apart"),
        pytest.param(EXCUSED, 101, True, Share.LONGER, id="with too long a prompt it is of those"),
    ],
)
def test_what_a_request_counts_in(objective: Objective, tokens: int, at_zero: bool, counts_in: Share) -> None:
    assert share(objective, tokens, at_zero=at_zero) is counts_in


def test_an_excused_first_caller_is_judged_by_how_long_it_may_wait() -> None:
    assert judge(EXCUSED, Share.FIRST_CALLER, Ending.FINISHED, Measured(59.0, 0.0, 1, 1)) is Verdict.MET
    assert judge(EXCUSED, Share.FIRST_CALLER, Ending.ABORTED, None, 59.0) is Verdict.ABORTED


class Notes:
    """An engine's notes of one sequence, in round numbers."""

    def __init__(self, first_s: float, tokens: int, gap_s: float) -> None:
        self.arrival_time, self.first_token_latency = 1000.0, first_s
        self.first_token_ts, self.last_token_ts = 5.0, 5.0 + gap_s * max(tokens - 1, 0)
        self.num_generation_tokens = tokens


def finished(*notes: Notes, entered: float = 1000.0, prompt: int = 7, ending: Ending = Ending.FINISHED) -> Request:
    request = Request(entered, 1)
    request.sequences = [Sequence(one, prompt) for one in notes]
    request.ending = ending
    return request


def test_the_first_token_is_counted_from_when_the_request_entered_the_system() -> None:
    measured = finished(Notes(0.3, 11, 0.02), entered=999.5).measured()
    assert measured is not None
    assert (measured.ttft_s, round(measured.tpot_s, 9)) == (pytest.approx(0.8), 0.02)


def test_several_sequences_are_one_request_with_the_first_token_of_any_and_the_pace_of_the_slowest() -> None:
    measured = finished(Notes(0.3, 11, 0.02), Notes(0.2, 5, 0.09), Notes(0.0, 0, 0.0)).measured()
    assert measured is not None
    assert (measured.ttft_s, round(measured.tpot_s, 9), measured.output_tokens) == (pytest.approx(0.2), 0.09, 11)


def test_each_request_is_counted_once_in_its_objective(tmp_path: Path) -> None:
    tally = Tally(tmp_path, PROMISE)
    for name in (None, "chat", "batch", "nobody"):
        index = tally.begin(name)
        tally.end(index, finished(Notes(0.6, 3, 0.01)), at_zero=False)
    tally.begin("batch")
    tally.end(tally.begin(None), finished(Notes(0.1, 3, 0.01), prompt=101), at_zero=False)
    counts = read_tally(tmp_path, PROMISE)
    chat, batch = counts.objectives
    assert (chat.arrivals, chat.in_flight, chat.ended[Share.PROMISE][Verdict.LATE_TTFT]) == (4, 0, 3)
    assert (batch.arrivals, batch.in_flight, batch.ended[Share.PROMISE][Verdict.MET]) == (2, 1, 1)
    assert chat.ended[Share.LONGER][Verdict.MET] == 1
    assert counts.unknown_names == 1
    assert (sum(chat.ttft_s.counts), chat.ttft_s.sum, sum(chat.input_tokens.counts)) == (3, pytest.approx(1.8), 4)


def test_limits_and_declared_lengths_are_edges(tmp_path: Path) -> None:
    tally = Tally(tmp_path, PROMISE)
    tally.end(tally.begin(None), finished(Notes(0.5, 5, 0.05), prompt=20), at_zero=False)
    (chat, _) = read_tally(tmp_path, PROMISE).objectives

    def at_or_below(buckets: object, edge: float) -> int:
        return sum(buckets.counts[: buckets.edges.index(edge) + 1])  # type: ignore[attr-defined]

    assert at_or_below(chat.ttft_s, 0.5) == 1
    assert (at_or_below(chat.input_tokens, 10), at_or_below(chat.input_tokens, 20)) == (0, 1)
    assert at_or_below(chat.output_tokens, 5) == 1


# A process of its own, as an API server is; `-I -S`: without any package but ours, as in the engine.
_OTHER = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
import modelfleet_worker.gate
from modelfleet_worker.promise import parse_promise
from modelfleet_worker.gate_state import Counter, Outcome
from modelfleet_worker.tally import Tally
folder = Path(sys.argv[2])
tally, counter = Tally(folder, parse_promise(sys.argv[3])), Counter(folder)
for _ in range(3): tally.begin(None), counter.begin()
counter.end(Outcome.COMPLETED)
print("counted", flush=True)
sys.stdin.read()
"""
TEXT = json.dumps({"digest": "0123456789ab", "objectives": [{"name": "chat", "ttft_s": 0.5, "tpot_s": 0.05}]})


def test_what_a_process_had_in_flight_when_it_died_has_failed(tmp_path: Path) -> None:
    promise = parse_promise(TEXT)
    board = Board(tmp_path)
    board.set_promise(promise, TEXT)
    Tally(tmp_path, promise).begin(None)
    code = str(Path(str(modelfleet_worker.__file__)).parents[1])
    command = [sys.executable, "-I", "-S", "-c", _OTHER, code, str(tmp_path), TEXT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "counted\n"
        assert read_tally(tmp_path, promise).in_flight == 4
        other.kill()
    (chat,) = read_tally(tmp_path, promise).objectives
    assert (chat.arrivals, chat.in_flight, chat.ended[Share.PROMISE][Verdict.FAILED]) == (4, 1, 3)


def test_the_counts_of_an_earlier_container_go_on_and_its_requests_in_flight_have_failed(tmp_path: Path) -> None:
    promise = parse_promise(TEXT)
    for containers in range(1, 4):
        board = Board(tmp_path)
        board.set_promise(promise, TEXT)
        tally, counter = Tally(tmp_path, promise), Counter(tmp_path)
        tally.begin(None), counter.begin()
        tally.end(tally.begin(None), finished(Notes(0.1, 3, 0.01)), at_zero=False)
        (chat,) = read_tally(tmp_path, promise).objectives
        failed = chat.ended[Share.PROMISE][Verdict.FAILED]
        assert (chat.arrivals, chat.in_flight, failed) == (2 * containers, 1, containers - 1)
        counts = board.read()
        assert (counts.in_flight, counts.ended[Outcome.SERVER_ERROR]) == (1, containers - 1)
        assert sum(chat.ttft_s.counts) == containers


def test_counts_of_two_promises_never_meet(tmp_path: Path) -> None:
    other = replace(PROMISE, digest="ba9876543210")
    early, late = Tally(tmp_path, PROMISE), Tally(tmp_path, other)
    index = early.begin(None)
    late.begin(None)
    early.end(index, finished(Notes(0.1, 3, 0.01)), at_zero=False)
    assert [read_tally(tmp_path, one).objectives[0].in_flight for one in (PROMISE, other)] == [0, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{", "promise.json is not valid JSON", id="not JSON"),
        pytest.param("[]", "promise.json must be an object", id="no object"),
        pytest.param("{}", "objectives must be a list of at least one object", id="no objectives"),
        pytest.param(
            '{"objectives": [{"name": "a", "ttft_s": 1, "tpot_s": 1}]}', "digest is missing", id="without a digest"
        ),
        pytest.param(
            '{"digest": "../../x", "objectives": [{"name": "a", "ttft_s": 1, "tpot_s": 1}]}',
            'digest must be 8 to 64 hex digits, not "../../x"',
            id="a digest that is a path",
        ),
        pytest.param(
            '{"digest": "0123456789ab", "objectives": [{"name": "a", "ttft_s": 0, "tpot_s": 1}]}',
            "objectives[0].ttft_s must be a number of seconds above 0 and at most 1000000000, not 0",
            id="a limit of nothing",
        ),
    ],
)
def test_a_promise_that_cannot_be_used_says_why(text: str, said: str) -> None:
    with pytest.raises(PromiseError) as error:
        parse_promise(text)
    assert said in str(error.value)
