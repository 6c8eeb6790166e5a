"""What vLLM said, and the reason that the worker gives for it. The lines are those that vLLM 0.32 was seen to write."""

import pytest

from modelfleet.api import reasons as api_reasons
from modelfleet_worker.diagnosis import Evidence
from modelfleet_worker.failure import Reason

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
ECHO = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"
NO_KV = (
    "ValueError: To serve at least one request with the model's max seq len (4096), (1.00 GiB KV cache is needed, which"
    " is larger than the available KV cache memory (0.25 GiB). Based on the available memory, the estimated maximum"
    " model length is 896."
)
DERIVED = "  Value error, User-specified max_model_len (100000) is greater than the derived max_model_len (4096)"
BATCHED = "  Value error, max_num_batched_tokens (16) is smaller than max_model_len (1024)."
HEADS = "  Value error, Total number of attention heads (4) must be divisible by tensor parallel size (3)."
NUMA = "RuntimeError: Not enough allowed NUMA nodes to bind threads of 2 local CPUWorkers."
FRACTION = (
    "ValueError: Available memory on node 0 (20.15/23.54 GiB) on startup is less than desired CPU memory utilization"
    " (0.99, 23.31 GiB)."
)
REPO = "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name'"
ARCHITECTURE = "  Value error, Model architectures ['Nobody'] are not supported for now."
WORKER_DIED = (
    "ERROR 11-29 17:54:29 [multiproc_executor.py:1] Worker proc VllmWorker-0 died unexpectedly (exit code: -9)."
)
WAITED = "TimeoutError: Timed out waiting for engine core processes to start."


def failure(lines, exit_code, phase):
    evidence = Evidence()
    for line in lines:
        evidence.add(line)
    return evidence.failure(exit_code, phase)


@pytest.mark.parametrize(
    ("lines", "exit_code", "reason", "words"),
    [
        pytest.param([NO_KV, ECHO], 1, "KvCacheTooSmall", "896", id="the KV cache holds no request"),
        pytest.param([OOM, ECHO], 1, "EngineOutOfMemory", "2.00 GiB", id="the device is full"),
        pytest.param([FRACTION], 1, "EngineOutOfMemory", "0.99", id="the memory fraction is too high"),
        pytest.param([DERIVED], 1, "ModelRefused", "100000", id="the context is longer than the model's"),
        pytest.param([HEADS], 1, "ModelRefused", "divisible", id="heads do not divide"),
        pytest.param([ARCHITECTURE], 1, "ModelRefused", "Nobody", id="an architecture that vLLM does not know"),
        pytest.param([BATCHED], 1, "EngineArgumentsRefused", "smaller", id="a budget below the context"),
        pytest.param([NUMA], 1, "EngineArgumentsRefused", "NUMA", id="more ranks than NUMA nodes"),
        pytest.param(["vllm: error: unrecognized arguments: --x"], 2, "EngineArgumentsRefused", "--x", id="a flag"),
        pytest.param(["something new"], 2, "EngineArgumentsRefused", "something new", id="exit code 2 says it alone"),
        pytest.param([REPO], 1, "ModelNotFound", "Repo id", id="the path is no model"),
        pytest.param([WAITED], 1, "EngineStartTimeout", "Timed out", id="it waited for its own core"),
        pytest.param(
            ["KeyError: 'x'", ECHO], 1, "EngineStartFailed", "KeyError", id="the first exception, not its echo"
        ),
        pytest.param([], 0, "EngineStartFailed", "exit code 0", id="it said nothing and ended well"),
        pytest.param([], -9, "EngineStartFailed", "signal 9", id="it was killed"),
    ],
)
def test_a_start_that_failed_is_named_after_what_was_said(lines, exit_code, reason, words):
    found = failure(lines, exit_code, "starting")
    assert (found.reason, words in found.message, found.remedy != "") == (reason, True, True)


@pytest.mark.parametrize(
    ("line", "exit_code", "message"),
    [
        pytest.param(
            NO_KV,
            1,
            "The KV cache has no room for one request of 4096 tokens; 896 tokens would fit.",
            id="the size that would fit, without GiB that round to nothing",
        ),
        pytest.param(
            "main.py serve: error: argument --dtype: invalid choice: 'float3' (choose from 'auto')",
            2,
            "The engine refused an argument: argument --dtype: invalid choice: 'float3' (choose from 'auto').",
            id="not the program's name",
        ),
        pytest.param(
            HEADS.rstrip(".") + ". [type=value_error, input_value=ArgsKwargs((), {'model_co...",
            1,
            "The engine refused the model: Total number of attention heads (4) must be divisible by tensor parallel"
            " size (3).",
            id="nothing of pydantic's",
        ),
        pytest.param(
            "Error parsing config for /m: The checkpoint has model type `nope` but Transformers does not recognize this"
            " architecture. This could be because of an issue with the checkpoint.",
            1,
            "The engine refused the model: Error parsing config for /m: The checkpoint has model type `nope` but"
            " Transformers does not recognize this architecture.",
            id="the first sentence",
        ),
    ],
)
def test_a_sentence_holds_what_a_user_needs(line, exit_code, message):
    assert failure([line], exit_code, "starting").message == message


def test_a_lack_of_memory_wins_over_what_it_broke():
    assert failure([OOM, DERIVED], 1, "starting").reason == "EngineOutOfMemory"


def test_a_death_while_serving_tells_of_the_worker_process_though_the_exit_code_is_0():
    found = failure([WORKER_DIED, "EngineDeadError: EngineCore encountered an issue."], 0, "serving")
    assert (found.reason, found.exit_code) == ("EngineDied", 0)
    assert "one of its workers ended killed by signal 9" in found.message
    assert "memory" in found.remedy


def test_a_request_s_error_does_not_explain_a_death_while_serving():
    assert failure([DERIVED], 0, "serving").reason == "EngineDied"


def test_what_was_said_before_it_served_explains_no_later_death():
    evidence = Evidence()
    evidence.add(OOM)
    evidence.forget_start()
    assert evidence.failure(0, "serving").reason == "EngineDied"


def test_two_starts_that_fail_alike_give_the_same_sentence():
    lines = [f"(EngineCore pid={pid}) ERROR 11-29 17:5{pid}:29 [core.py:1] {NO_KV}" for pid in (1, 2)]
    first, second = (failure([line], 1, "starting") for line in lines)
    assert first.message == second.message


def test_a_termination_message_fits_into_4096_bytes_whatever_was_said():
    found = failure(["\N{SNOWMAN}\x1b[31m" * 3000] * 500, 1, "starting")
    assert len(found.to_json().encode()) <= 4096


def test_every_reason_of_a_worker_is_one_that_the_operator_documents():
    assert {reason.value for reason in Reason} <= {reason.value for reason in api_reasons.Reason}
