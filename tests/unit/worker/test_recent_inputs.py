"""The prompts that an engine took last, written in one process and read in another after its death."""

import pytest

from modelfleet_worker.recent_inputs import SLOTS, RecentInputs, forget_inputs, recent_inputs


def test_what_began_and_did_not_end_is_what_was_worked_on(tmp_path):
    ring = RecentInputs(tmp_path)
    ring.began(1, 3500, logprobs=True, media=False)
    ring.began(2, 12, logprobs=False, media=True)
    ring.ended(2)
    ring.ended(77)
    long, short = recent_inputs(tmp_path)
    assert (long.tokens, long.logprobs, long.media, long.ended) == (3500, True, False, False)
    assert (short.tokens, short.logprobs, short.media, short.ended) == (12, False, True, True)
    assert 0 < long.at_ns <= short.at_ns


def test_what_is_open_when_the_engine_dies_stays_open(tmp_path):
    ring = RecentInputs(tmp_path)
    ring.began(1, 3500, logprobs=True, media=False)
    ring.freeze()
    ring.ended(1)
    assert [one.ended for one in recent_inputs(tmp_path)] == [False]


def test_only_the_last_ones_are_kept(tmp_path):
    ring = RecentInputs(tmp_path)
    for key in range(3 * SLOTS):
        ring.began(key, key, logprobs=False, media=False)
    ring.ended(0)  # its place belongs to another by now
    found = recent_inputs(tmp_path)
    assert [one.tokens for one in found] == list(range(2 * SLOTS, 3 * SLOTS))
    assert not any(one.ended for one in found)


def test_a_key_that_comes_again_names_the_newer_prompt_alone(tmp_path):
    ring = RecentInputs(tmp_path)
    ring.began(7, 100, logprobs=False, media=False)
    ring.ended(7)
    ring.began(7, 3500, logprobs=True, media=False)  # CPython gives the number of an object that is gone to another
    for key in range(1000, 1000 + SLOTS - 1):  # the last of them takes the first one's place
        ring.began(key, 1, logprobs=False, media=False)
    ring.ended(7)
    assert [one.ended for one in recent_inputs(tmp_path) if one.tokens == 3500] == [True]


@pytest.mark.parametrize("content", [b"", b"short"], ids=["empty", "cut off"])
def test_a_file_that_is_not_whole_tells_nothing(tmp_path, content):
    (tmp_path / "inputs-7").write_bytes(content)
    assert recent_inputs(tmp_path) == ()


def test_those_of_an_earlier_engine_are_forgotten(tmp_path):
    RecentInputs(tmp_path).began(1, 5, logprobs=False, media=False)
    forget_inputs(tmp_path)
    assert recent_inputs(tmp_path) == ()
