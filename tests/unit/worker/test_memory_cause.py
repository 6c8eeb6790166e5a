"""A death for lack of memory, from what was seen and said to one cause.

Lines of the CPU engine are those that `make e2e-memory` saw; those of CUDA are in torch's and vLLM's format, with the
figures of public reports (vLLM issues 9290, 10596, 27508).
"""

from dataclasses import replace
from typing import Any

import pytest

from modelfleet_worker.cgroup import Held, Memory
from modelfleet_worker.devices import Device, Xid
from modelfleet_worker.diagnosis import Evidence
from modelfleet_worker.engine_settings import engine_settings
from modelfleet_worker.failure import LIMIT_BYTES, Failure
from modelfleet_worker.memory_cause import Facts, account
from modelfleet_worker.memory_log import Listener
from modelfleet_worker.memory_samples import Sample
from modelfleet_worker.recent_inputs import Input

GIB, MIB = 1 << 30, 1 << 20
SHARE = (
    "(VllmWorker-0 pid=1242) ERROR 11-30 00:33:56 [multiproc_executor.py:953] ValueError: Available memory on node 0"
    " (19.47/21.34 GiB) on startup is less than desired CPU memory utilization (0.92, 19.63 GiB). On the CPU backend,"
    " the `--gpu-memory-utilization` flag controls the fraction of CPU memory reserved (despite its name)."
)
CUDA_SHARE = (
    "ValueError: Free memory on device cuda:0 (78.50/79.11 GiB) on startup is less than desired GPU memory utilization"
    " (0.995, 78.71 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
WORKER_KILLED = (
    "(EngineCore pid=31755) ERROR 11-30 00:32:27 [multiproc_executor.py:315] Worker proc VllmWorker-0 died unexpectedly"
    " (exit code: -9), shutting down executor."
)
OUT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 138.00 MiB. GPU 0 has a total capacity of 79.15 GiB"
    " of which 2.19 MiB is free. Including non-PyTorch memory, this process has 79.12 GiB memory in use. Of the"
    " allocated memory 71.57 GiB is allocated by PyTorch, with 39.77 MiB allocated in private pools (e.g., CUDA"
    " Graphs), and 61.60 MiB is reserved by PyTorch but unallocated."
)
OUT_UNNAMED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.82 GiB. GPU 0 has a total capacity of 79.14 GiB of"
    " which 3.02 GiB is free. Process 3620138 has 76.10 GiB memory in use. Of the allocated memory 75.34 GiB is"
    " allocated by PyTorch, with 58.00 MiB allocated in private pools (e.g., CUDA Graphs), and 75.30 MiB is reserved"
    " by PyTorch but unallocated."
)
OUT_BESIDE = OUT.replace("Including", "Process 77 has 30.00 GiB memory in use. Including").replace("79.12", "48.00")
OUT_SPLIT = OUT.replace("61.60 MiB is reserved", "6.39 GiB is reserved")
DUMP = (
    "(EngineCore pid=9) ERROR 11-30 00:00:00 [dump_input.py:79] Dumping scheduler output for model execution:"
    " SchedulerOutput(scheduled_new_reqs=[NewRequestData(req_id=cmpl-1-0,prompt_token_ids_len={tokens},"
    "prefill_token_ids_len=None,mm_features=[],sampling_params=SamplingParams(n=1)),total_num_scheduled_tokens=2048)"
)
DIED = "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."


def frame(function: str) -> str:
    return f'(Worker pid=8)   File "/vllm/v1/worker/gpu_model_runner.py", line 5306, in {function}'


def host(used: int = GIB, limit: int | None = 2 * GIB, kills: int = 0) -> Memory:
    return Memory(
        version=2,
        used_bytes=used,
        anonymous_bytes=used,
        shared_bytes=0,
        cache_bytes=0,
        limit_bytes=limit,
        oom_kills=kills,
    )


def device(used: int = 0) -> Device:
    return Device(index=0, name="NVIDIA H100 80GB HBM3", uuid="GPU-6c1b", usable_bytes=79 * GIB, used_bytes=used)


def prompt(tokens: int, **more: Any) -> Input:
    return Input(**{"tokens": tokens, "logprobs": False, "media": False, "ended": False, "at_ns": 1, **more})


CPU = {
    "before": Sample(at_s=0, host=host(kills=4)),
    "ring": (Sample(at_s=1, host=host(kills=4), own_bytes=GIB),),
    "after": Sample(at_s=2, host=host(64 * MIB, kills=4)),
}
KILLED = {**CPU, "after": Sample(at_s=2, host=host(64 * MIB, kills=5))}
BESIDE = (Held(pid=9, name="python", anonymous_bytes=GIB),)
CROWDED = {**KILLED, "after": Sample(at_s=2, host=host(kills=5), others=BESIDE)}
FULL = Sample(at_s=1, host=host(kills=4), own_bytes=GIB)
TORN = Sample(at_s=1, host=host(kills=4))
ALONE = {"before": Sample(at_s=0, devices=(device(),)), "after": Sample(at_s=2, devices=(device(),))}
SHARED = {**ALONE, "after": Sample(at_s=2, devices=(device(30 * GIB),))}
BLIND = {"before": Sample(at_s=0, devices=(device(),))}


def diagnose(lines: list[str], exit_code: int, phase: str, args: str = "", **seen: Any) -> Failure:
    evidence, listener = Evidence(), Listener()
    for line in lines:
        evidence.add(line)
        listener.add(line)
    facts = Facts(**{"settings": engine_settings(args.split()), "said": listener.said(), **seen})
    return account(evidence.failure(exit_code, phase), facts)


@pytest.mark.parametrize(
    ("seen", "lines", "reason", "words"),
    [
        pytest.param(
            CPU,
            [SHARE],
            "MemoryFractionTooHigh",
            "The share 0.92 of 21.3 GiB is more than the 19.5 GiB that are free.",
            id="the share of a node on CPU",
        ),
        pytest.param(ALONE, [CUDA_SHARE], "MemoryFractionTooHigh", "79.1 GiB", id="the share of an empty device"),
        pytest.param(
            SHARED,
            [CUDA_SHARE],
            "ForeignMemory",
            "Another process holds 30.0 GiB of accelerator 0 (NVIDIA H100 80GB HBM3)",
            id="the share of a device that another uses",
        ),
        pytest.param(
            KILLED,
            [WORKER_KILLED],
            "HostOutOfMemory",
            "The kernel killed a process of the engine at the container's limit of 2.0 GiB; its processes held 1.0 GiB",
            id="a container that is too small",
        ),
        pytest.param(SHARED, [OUT], "ForeignMemory", "asked for 140 MiB more", id="loading beside another"),
        pytest.param(ALONE, [OUT], "EngineOutOfMemory", "ran out of memory", id="weights that do not fit"),
        pytest.param(
            ALONE,
            [frame("capture_model"), OUT],
            "MemoryFractionTooHigh",
            "no other process uses the device",
            id="the warm-up, when the KV cache was made",
        ),
        pytest.param(CPU, ["KeyError: 'x'"], "EngineStartFailed", "KeyError", id="nothing about memory"),
    ],
)
def test_a_start(seen, lines, reason, words):
    found = diagnose(lines, 1, "starting", **seen)
    assert (found.reason, words in found.message) == (reason, True), found.message


@pytest.mark.parametrize(
    ("seen", "lines", "reason", "words"),
    [
        pytest.param(
            CROWDED,
            [WORKER_KILLED],
            "ForeignMemory",
            "python (pid 9) holds 1.0 GiB of the container's memory; the kernel killed a process of the engine",
            id="another in the container",
        ),
        pytest.param(KILLED, [WORKER_KILLED], "HostOutOfMemory", "no other process", id="nobody else in the container"),
        pytest.param(
            {**KILLED, "ring": (FULL, TORN)},
            [WORKER_KILLED],
            "HostOutOfMemory",
            "",
            id="a sample of a process that dies",
        ),
        pytest.param(
            {**KILLED, "ring": (FULL, TORN, TORN)},
            [WORKER_KILLED],
            "ForeignMemory",
            "1.0 GiB",
            id="two on end are real",
        ),
        pytest.param(
            {**KILLED, "inputs": (prompt(3500, logprobs=True),)},
            [WORKER_KILLED],
            "LongPromptSpike",
            "A prompt of 3500 tokens needed memory for the log-probabilities of a prompt",
            id="a long prompt whose log-probabilities were asked for",
        ),
        pytest.param(
            {**KILLED, "inputs": (prompt(3500),)},
            [WORKER_KILLED],
            "HostOutOfMemory",
            "",
            id="a long prompt without a mechanism is not blamed",
        ),
        pytest.param(
            {**KILLED, "inputs": (prompt(3500, logprobs=True, ended=True),)},
            [WORKER_KILLED],
            "HostOutOfMemory",
            "",
            id="nor one that had ended",
        ),
        pytest.param(
            {**KILLED, "inputs": (prompt(100, logprobs=True),)},
            [WORKER_KILLED],
            "HostOutOfMemory",
            "",
            id="nor a short one with the mechanism",
        ),
        pytest.param(
            CPU,
            [WORKER_KILLED, DIED],
            "EngineDied",
            "no kill for lack of memory was counted in the container, so somebody sent it",
            id="a kill that the kernel did not count",
        ),
        pytest.param(
            CPU,
            [WORKER_KILLED.replace("-9", "None"), "EngineCore encountered a fatal error.", DIED],
            "EngineDied",
            "without a known exit code; no kill for lack of memory was counted in the container, so somebody ended it",
            id="a worker whose exit code vLLM did not get",
        ),
        pytest.param(
            CPU,
            [DIED],
            "EngineDied",
            "after its engine core ended without a word; no kill for lack of memory was counted",
            id="an engine core that is gone",
        ),
        pytest.param(
            ALONE,
            [OUT],
            "MemoryFractionTooHigh",
            "The engine asked for 140 MiB more and 2.2 MiB were free; no other process uses the device, so the share"
            " 0.92 leaves too little beside it.",
            id="a full device that nobody else uses",
        ),
        pytest.param(SHARED, [OUT], "ForeignMemory", "30.0 GiB", id="a full device that another uses"),
        pytest.param(
            ALONE,
            [frame("_get_prompt_logprobs_dict"), OUT_UNNAMED, DUMP.format(tokens=3500), DIED],
            "LongPromptSpike",
            "A prompt of 3500 tokens needed memory for the log-probabilities of a prompt (tokens × vocabulary): the"
            " engine asked for 3.8 GiB more and 3.0 GiB were free.",
            id="a long prompt, by the traceback and the step that failed",
        ),
        pytest.param(
            ALONE,
            [frame("_get_prompt_logprobs_dict"), OUT_UNNAMED, DUMP.format(tokens=30), DIED],
            "MemoryFractionTooHigh",
            "for the log-probabilities of a prompt",
            id="a short prompt is not blamed for it",
        ),
        pytest.param(
            {**ALONE, "inputs": (prompt(4000),)},
            [OUT_SPLIT],
            "LongPromptSpike",
            "fragmentation",
            id="memory in pieces, under a long prompt",
        ),
        pytest.param(BLIND, [OUT_BESIDE], "ForeignMemory", "30.0 GiB", id="others by the allocator's own words"),
        pytest.param(
            BLIND,
            [OUT_UNNAMED],
            "EngineOutOfMemory",
            "whether others hold memory could not be seen",
            id="in a container torch lists itself under a number: that is nobody else",
        ),
        pytest.param(
            {**KILLED, "ring": (Sample(at_s=1, host=host(kills=5)),), "after": Sample(at_s=62, host=host(kills=5))},
            [WORKER_KILLED],
            "EngineDied",
            "no kill for lack of memory was counted in the container just then, so somebody sent it",
            id="a kill by somebody, long after the kernel killed something else",
        ),
        pytest.param(
            {**KILLED, "ring": (Sample(at_s=1, host=host(kills=5)),), "after": Sample(at_s=62, host=host(kills=5))},
            ["AssertionError: x", "EngineCore encountered a fatal error.", DIED],
            "EngineDied",
            "x.",
            id="a bug, long after the kernel killed something else",
        ),
        pytest.param(
            {**KILLED, "xids": (Xid("", 79, 1.0),)},
            [WORKER_KILLED],
            "HostOutOfMemory",
            "",
            id="a kill by the kernel, whatever a device did just before",
        ),
        pytest.param(
            KILLED,
            ["OSError: No space left on device: '/tmp/x'", "EngineCore encountered a fatal error.", DIED],
            "DiskFull",
            "",
            id="words that tell the cause, just after the kernel killed something else",
        ),
        pytest.param(
            KILLED,
            ["BrokenPipeError: x"],
            "HostOutOfMemory",
            "",
            id="words that tell none, just after the kernel killed",
        ),
        pytest.param(
            CPU, ["AssertionError: x", "EngineCore encountered a fatal error.", DIED], "EngineDied", "x.", id="a bug"
        ),
    ],
)
def test_a_death_while_it_served(seen, lines, reason, words):
    found = diagnose(lines, 0, "serving", "--max-model-len=4096", **seen)
    assert (found.reason, words in found.message) == (reason, True), found.message


LOGPROBS = {**KILLED, "inputs": (prompt(3500, logprobs=True),)}
IMAGES = {**KILLED, "inputs": (prompt(3500, media=True),)}


@pytest.mark.parametrize(
    ("seen", "args", "flag", "value"),
    [
        pytest.param(CROWDED, "", None, None, id="never for a foreign process"),
        pytest.param(KILLED, "--kv-cache-memory-bytes=1G", "kv-cache-memory-bytes", str(768 * MIB), id="the KV cache"),
        pytest.param(KILLED, "--kv-cache-memory-bytes=64M", None, None, id="a KV cache that is next to nothing"),
        pytest.param(KILLED, "", "gpu-memory-utilization", "0.89", id="the share of the host on CPU"),
        pytest.param(
            {**KILLED, "before": Sample(at_s=0, host=host(kills=4), devices=(device(),))},
            "",
            None,
            None,
            id="host memory beside an accelerator is not the plan's",
        ),
        pytest.param(
            LOGPROBS, "--max-num-batched-tokens=4096", "long-prefill-token-threshold", "2048", id="tokens of one prompt"
        ),
        pytest.param(
            LOGPROBS,
            "--max-num-batched-tokens=4096 --long-prefill-token-threshold=256",
            "max-num-batched-tokens",
            "2048",
            id="then tokens of a step",
        ),
        pytest.param(
            IMAGES,
            "--max-num-batched-tokens=4096",
            "max-num-batched-tokens",
            "2048",
            id="the encoder's share of a step",
        ),
        pytest.param(LOGPROBS, "", None, None, id="a budget that nobody told is not guessed"),
    ],
)
def test_the_step_that_is_proposed(seen, args, flag, value):
    found = diagnose([WORKER_KILLED], 0, "serving", f"--max-model-len=4096 {args}", **seen)
    assert (found.correction.get("flag"), found.correction.get("value")) == (flag, value)


def test_the_budget_that_the_engine_said_it_uses_is_halved():
    said = "INFO 11-30 00:00:00 [scheduler.py:1] Chunked prefill is enabled with max_num_batched_tokens=2048."
    found = diagnose([said, WORKER_KILLED], 0, "serving", "--max-model-len=4096", **LOGPROBS)
    assert found.correction == {"flag": "long-prefill-token-threshold", "value": "1024", "before": ""}


def test_words_of_the_start_explain_no_later_death():
    listener = Listener()
    listener.add(OUT)
    listener.forget_start()
    assert not listener.said().out_of_memory


def test_the_evidence_is_in_the_termination_message_and_it_fits():
    found = diagnose([WORKER_KILLED, *["x" * 400] * 40], 0, "serving", "--max-model-len=4096", **LOGPROBS)
    assert found.evidence == {
        "hostUsedBytes": GIB,
        "hostOwnBytes": GIB,
        "hostLimitBytes": 2 * GIB,
        "oomKills": 1,
        "promptTokens": 3500,
        "mechanism": "PROMPT_LOGPROBS",
    }
    text = replace(found, log="é" * 5000).to_json()
    assert len(text.encode()) <= LIMIT_BYTES
    assert '"oomKills": 1' in text
