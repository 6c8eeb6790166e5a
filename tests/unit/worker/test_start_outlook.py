"""What is known of a start: phases from lines of vLLM 0.32 as they were seen, shares and times from measurements."""

import pytest

from modelfleet_worker.start_outlook import Heard, Outlook, Phase, heard, outlook
from modelfleet_worker.state import Progress

WORKER = "(Worker pid=19180) INFO 11-30 00:17:03 "
CORE = "(EngineCore pid=19172) INFO 11-30 00:17:04 "
EARLIER_S = {Phase.PREFLIGHT: 0.0, Phase.BOOT: 20.0, Phase.LOAD: 60.0, Phase.COMPILE: 10.0, Phase.WARM_UP: 10.0}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (WORKER + "[cpu_model_runner.py:68] Starting to load model /models/chat...", Heard(Phase.LOAD, None)),
        ("Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:03<00:03]", Heard(Phase.LOAD, 0.5)),
        (WORKER + "[default_loader.py:501] Loading weights took 0.01 seconds", Heard(Phase.COMPILE, None)),
        (CORE + "[kv_cache_utils.py:2327] CPU KV cache size: 131,072 tokens, Maximum", Heard(Phase.WARM_UP, None)),
        ("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  25%|██▌", Heard(Phase.WARM_UP, 0.25)),
        ("WARNING [vllm.py:1703] Enforce eager set, disabling torch.compile, CUDAGraphs", None),
        (WORKER + "[base_loader.py:82] Initializing model took 0.201478 seconds", None),
    ],
    ids=[
        "the load begins",
        "half of the shards",
        "the load ended",
        "the cache is sized",
        "a quarter of the graphs",
        "no compiling is no compiling",
        "an empty model is nothing",
    ],
)
def test_a_line_tells_the_phase(line: str, said: Heard | None) -> None:
    assert heard(line) == said


def test_a_first_start_says_that_its_end_is_unknown() -> None:
    known = outlook(Phase.LOAD, {Phase.BOOT: 20.0, Phase.LOAD: 30.0}, None, {})
    assert known == Outlook()
    assert known.retry_after_s is None


def test_a_first_start_tells_of_its_phase_what_the_engine_tells() -> None:
    known = outlook(Phase.LOAD, {Phase.BOOT: 20.0, Phase.LOAD: 30.0}, 0.25, {})
    assert known == Outlook(phase_share=0.25, phase_left_s=90.0)


def test_a_later_start_is_measured_by_the_earlier_one() -> None:
    known = outlook(Phase.LOAD, {Phase.BOOT: 25.0, Phase.LOAD: 30.0}, None, EARLIER_S)
    assert (known.share, known.left_s, known.retry_after_s) == (0.5, 50.0, 50)


def test_what_the_engine_says_of_its_phase_beats_the_earlier_start() -> None:
    known = outlook(Phase.LOAD, {Phase.BOOT: 20.0, Phase.LOAD: 60.0}, 0.5, EARLIER_S)
    assert (known.share, known.left_s) == (0.5, 80.0)


def test_a_phase_that_takes_far_longer_than_before_ends_nobody_knows_when() -> None:
    known = outlook(Phase.LOAD, {Phase.BOOT: 20.0, Phase.LOAD: 200.0}, None, EARLIER_S)
    assert known.left_s is None
    assert known.share == 0.8


def test_a_start_that_ended_is_whole() -> None:
    assert outlook(None, {Phase.BOOT: 20.0}, None, {}).to_json() == {
        "percent": 100,
        "left_s": 0.0,
        "phasePercent": None,
        "phaseLeft_s": None,
    }


def test_phases_only_go_forward() -> None:
    progress = Progress(0.0)
    for phase, at_s in ((Phase.BOOT, 1.0), (Phase.WARM_UP, 5.0), (Phase.LOAD, 6.0), (None, 7.0), (Phase.LOAD, 8.0)):
        progress.enter(phase, at_s)
    assert progress.phase is None
    assert progress.phases_s(9.0) == {Phase.PREFLIGHT: 1.0, Phase.BOOT: 4.0, Phase.WARM_UP: 2.0}
