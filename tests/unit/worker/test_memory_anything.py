"""Whatever a plan says, an engine prints and the machine shows: the account of a death can be written."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from modelfleet_worker.cgroup import Memory, Node
from modelfleet_worker.devices import Device
from modelfleet_worker.diagnosis import Evidence
from modelfleet_worker.engine_settings import BUDGET, FRACTION, KV_BYTES, THRESHOLD, engine_settings
from modelfleet_worker.memory_cause import Facts, account
from modelfleet_worker.memory_check import check_devices, check_host
from modelfleet_worker.memory_log import Listener
from modelfleet_worker.memory_samples import Sample

TEXT = st.text(max_size=40)
BYTES = st.integers(0, 2**50)
FLAGS = st.sampled_from(
    [FRACTION, KV_BYTES, BUDGET, THRESHOLD, "max-model-len", "max-num-seqs", "tensor-parallel-size"]
)
VALUES = st.one_of(TEXT, st.integers().map(str), st.floats().map(str), st.sampled_from(["1G", "2.5k", "0.5Gi", "00"]))
ARGS = st.lists(st.one_of(TEXT, st.tuples(FLAGS, VALUES).map(lambda pair: f"--{pair[0]}={pair[1]}")), max_size=8)
MEMORY = st.builds(
    Memory,
    version=st.just(2),
    used_bytes=BYTES,
    anonymous_bytes=BYTES,
    shared_bytes=BYTES,
    cache_bytes=BYTES,
    limit_bytes=st.none() | BYTES,
    oom_kills=st.integers(0, 9),
)
DEVICES = st.lists(
    st.builds(Device, index=st.integers(0, 9), name=TEXT, uuid=TEXT, usable_bytes=BYTES, used_bytes=BYTES), max_size=3
)
SAMPLE = st.builds(
    Sample,
    at_s=st.floats(0, 1e6),
    devices=DEVICES.map(tuple),
    host=st.none() | MEMORY,
    node=st.none() | st.builds(Node, total_bytes=BYTES, available_bytes=BYTES),
    own_bytes=BYTES,
)
LINES = st.sampled_from(
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"
        " 79.25 GiB of which 1.00 GiB is free. Process 7 has 3.0 GiB memory in use. and 5.00 GiB is reserved by"
        " PyTorch but unallocated",
        "Free memory on device (1.0/2.0 GiB) on startup is less than desired GPU memory utilization (0.9, 1.8 GiB)",
        "OutOfMemoryError: Tried to allocate 1.2.3 GiB",
        "Worker proc VllmWorker-0 died unexpectedly (exit code: -9).",
        "EngineDeadError",
        "Dumping scheduler output for model execution NewRequestData(prompt_token_ids_len=99999999999999999999)",
        "Chunked prefill is enabled with max_num_batched_tokens=2048",
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    args=ARGS,
    seen=st.tuples(st.none() | SAMPLE, st.lists(SAMPLE, max_size=3), st.none() | SAMPLE),
    lines=st.lists(LINES | TEXT, max_size=8),
    code=st.integers(-20, 260),
    phase=st.sampled_from(["starting", "serving", "draining"]),
)
def test_a_death_has_an_account(
    args: list[str],
    seen: tuple[Sample | None, list[Sample], Sample | None],
    lines: list[str],
    code: int,
    phase: str,
) -> None:
    evidence, listener, plan = Evidence(), Listener(), engine_settings(args)
    for line in lines:
        evidence.add(line)
        listener.add(line)
    before, ring, after = seen
    facts = Facts(settings=plan, said=listener.said(), before=before, ring=tuple(ring), after=after)
    told = account(evidence.failure(code, phase), facts)
    assert json.loads(told.to_json())["reason"] == told.reason


@settings(max_examples=100, deadline=None)
@given(args=ARGS, sample=SAMPLE)
def test_a_start_is_refused_in_a_sentence_or_not_at_all(args: list[str], sample: Sample) -> None:
    plan = engine_settings(args)
    for failure in (check_host(sample, plan), check_devices(sample.devices, plan, None)):
        assert failure is None or json.loads(failure.to_json())["remedy"].endswith(".")
