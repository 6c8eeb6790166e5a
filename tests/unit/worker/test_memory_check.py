"""What speaks against a start: devices by recorded sessions of NVML, the host by samples."""

from dataclasses import replace

import pytest

from modelfleet_worker.cgroup import Held, Memory, Node
from modelfleet_worker.engine_settings import engine_settings
from modelfleet_worker.memory_check import check_devices, check_host, unavailable
from modelfleet_worker.memory_samples import Sample
from modelfleet_worker.nvml import NvmlDevices
from nvml_session import session

GIB, MIB = 1 << 30, 1 << 20
H100 = 81559 * MIB


@pytest.mark.parametrize(
    ("name", "args", "reason", "words"),
    [
        pytest.param("h100-idle", [], None, "", id="an idle device"),
        pytest.param("h100-old-driver", [], None, "", id="what an older driver keeps is not foreign"),
        pytest.param("a100-idle", ["--gpu-memory-utilization=1.0"], None, "", id="all of an idle device"),
        pytest.param(
            "h100-foreign",
            [],
            "ForeignMemory",
            "Another process holds 29.5 GiB of accelerator 0 (NVIDIA H100 80GB HBM3); the engine is to take 72.8 GiB of"
            " 79.1 GiB and 49.6 GiB are free.",
            id="a foreign process, whose number is another machine's",
        ),
        pytest.param("h100-foreign-unlisted", [], "ForeignMemory", "29.5 GiB", id="one that the driver does not list"),
        pytest.param("h100-foreign", ["--gpu-memory-utilization=0.6"], None, "", id="one that leaves enough"),
        pytest.param(
            "h100-foreign", ["--kv-cache-memory-bytes=55G"], "ForeignMemory", "55.0 GiB", id="a KV cache of fixed size"
        ),
        pytest.param(
            "h100-idle",
            ["--kv-cache-memory-bytes=90G"],
            "MemoryFractionTooHigh",
            "A KV cache of 90.0 GiB is more than the 79.1 GiB that are free.",
            id="more than there is",
        ),
        pytest.param("a100-ecc", [], "AcceleratorFaulty", "2 uncorrectable memory errors", id="rows wait for a reset"),
        pytest.param("a100-rows-failed", [], "AcceleratorFaulty", "could not be replaced", id="a row that is broken"),
        pytest.param("h100-lost", [], "AcceleratorFaulty", "fallen off the bus", id="off the bus"),
        pytest.param("h100-reset-required", [], "AcceleratorFaulty", "wants a reset", id="wants a reset"),
        pytest.param("a100-mig", [], "WrongAccelerator", "4.8 GiB, and its class states 79.6 GiB", id="a slice"),
        pytest.param("l4-no-ecc-right", [], "WrongAccelerator", "NVIDIA L4", id="another kind"),
        pytest.param(
            "a100-idle",
            ["--tensor-parallel-size=2"],
            "AcceleratorUnavailable",
            "sees 1 and the engine uses 2",
            id="few",
        ),
    ],
)
def test_devices(name, args, reason, words):
    failure = check_devices(NvmlDevices(session(name)).read(), engine_settings(args), H100)
    assert (failure.reason if failure else None) == reason
    assert words in (failure.message if failure else "")


def test_a_second_device_that_the_engine_does_not_use_is_not_looked_at():
    idle, lost = NvmlDevices(session("h100-idle")).read()[0], NvmlDevices(session("h100-lost")).read()[0]
    assert check_devices([idle, lost], engine_settings([]), None) is None
    assert check_devices([idle, lost], engine_settings(["--tensor-parallel-size=2"]), None) is not None


def test_a_foreign_process_gives_no_correction_and_a_share_too_high_gives_one():
    devices = NvmlDevices(session("h100-foreign")).read()
    foreign = check_devices(devices, engine_settings([]), None)
    large = check_devices(devices, engine_settings(["--kv-cache-memory-bytes=80G"]), None)
    assert foreign is not None
    assert not foreign.correction
    assert large is not None
    assert large.correction == {"flag": "kv-cache-memory-bytes", "value": str(60 << 30), "before": str(80 << 30)}


def test_a_driver_that_does_not_answer_is_told_in_its_words():
    failure = unavailable("Driver Not Loaded")
    assert (failure.reason, failure.message) == (
        "AcceleratorUnavailable",
        "The accelerators cannot be asked: Driver Not Loaded.",
    )


MEMORY = Memory(
    version=2,
    used_bytes=1 * GIB,
    anonymous_bytes=1 * GIB,
    shared_bytes=0,
    cache_bytes=0,
    limit_bytes=8 * GIB,
    oom_kills=0,
)
ROOM = Sample(at_s=0, host=MEMORY, node=Node(total_bytes=64 * GIB, available_bytes=60 * GIB), own_bytes=1 * GIB)
CROWDED = replace(
    ROOM,
    host=replace(MEMORY, used_bytes=7 * GIB, anonymous_bytes=5 * GIB, cache_bytes=1 * GIB),
    others=(Held(pid=9, name="python", anonymous_bytes=4 * GIB),),
)


@pytest.mark.parametrize(
    ("sample", "args", "reason", "words"),
    [
        pytest.param(ROOM, ["--kv-cache-memory-bytes=4G"], None, "", id="there is room"),
        pytest.param(
            CROWDED,
            ["--kv-cache-memory-bytes=4G"],
            "ForeignMemory",
            "python (pid 9) holds 4.0 GiB of the container's memory; the engine is to take 4.0 GiB and 2.0 GiB are",
            id="somebody else is in the container",
        ),
        pytest.param(CROWDED, ["--kv-cache-memory-bytes=2G"], None, "", id="file caches are given back"),
        pytest.param(
            ROOM, ["--gpu-memory-utilization=0.95"], "MemoryFractionTooHigh", "of 8.0 GiB", id="a share of the limit"
        ),
        pytest.param(ROOM, [], None, "", id="a share that the plan leaves open is the engine's to check"),
        pytest.param(Sample(at_s=0), ["--kv-cache-memory-bytes=4G"], None, "", id="nothing is known of the memory"),
        pytest.param(
            replace(ROOM, host=None, on_node=(Held(pid=8, name="java", anonymous_bytes=50 * GIB),)),
            ["--kv-cache-memory-bytes=61G"],
            "ForeignMemory",
            "java (pid 8) holds 50.0 GiB of the node's memory",
            id="a large process on the node, where it can be seen",
        ),
    ],
)
def test_the_host_where_the_engine_runs_on_cpu(sample, args, reason, words):
    failure = check_host(sample, engine_settings(args))
    assert (failure.reason if failure else None) == reason
    assert words in (failure.message if failure else "")
