"""What is made of a driver's answers: recorded sessions everywhere, this machine's own devices where it has some."""

from collections.abc import Sequence

import pynvml
import pytest

from modelfleet_worker.devices import Device, DevicesError, Trouble
from modelfleet_worker.nvml import NvmlDevices
from nvml_session import FOLDER, RecordedNvml, record, session

MIB = 1 << 20
DEVICES = [
    "a100-ecc",
    "a100-idle",
    "a100-mig",
    "a100-rows-failed",
    "h100-foreign",
    "h100-foreign-unlisted",
    "h100-idle",
    "h100-lost",
    "h100-no-handle",
    "h100-old-driver",
    "h100-reset-required",
    "h100-xid",
    "l4-no-ecc-right",
]
ERRORS = ["driver-mismatch", "memory-no-permission", "no-device", "no-driver", "no-library"]


def read(name: str, visible: str | None = None) -> Sequence[Device]:
    return NvmlDevices(session(name), visible).read()


def has_devices() -> bool:
    """Whether this machine's driver shows a device."""
    try:
        pynvml.nvmlInit()
        return bool(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return False


def test_every_committed_session_is_read_by_a_test():
    assert {path.stem for path in FOLDER.glob("*.json")} == {*DEVICES, *ERRORS}


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_is_told_whole(name):
    for device in read(name):
        assert device.name.startswith("NVIDIA") or device.trouble is Trouble.LOST
        assert device.free_bytes + device.used_bytes == device.usable_bytes or device.trouble is not None


@pytest.mark.parametrize(
    ("name", "words", "absent"),
    [
        pytest.param(
            "no-library", "NVML Shared Library Not Found", True, id="no library: a machine without such devices"
        ),
        pytest.param("no-driver", "Driver Not Loaded", False, id="the driver is not loaded"),
        pytest.param("driver-mismatch", "version mismatch", False, id="library and kernel module differ"),
        pytest.param("no-device", "shows no device", False, id="no device for this container"),
        pytest.param("memory-no-permission", "Insufficient Permissions", False, id="no right to ask for memory"),
    ],
)
def test_a_driver_that_does_not_answer_is_told_in_its_words(name, words, absent):
    with pytest.raises(DevicesError, match=words) as caught:
        read(name)
    assert caught.value.absent is absent


def test_what_the_driver_keeps_for_itself_is_nobody_s_use():
    (device,) = read("a100-idle")
    assert (device.usable_bytes, device.used_bytes) == ((81920 - 618) * MIB, 0)


def test_with_an_older_driver_what_it_keeps_shows_as_used_and_counts_as_noise():
    (device,) = read("h100-old-driver")
    assert device.used_bytes == 551 * MIB < device.noise_bytes


def test_a_slice_is_read_where_the_whole_device_may_not_be():
    (device,) = read("a100-mig")
    assert device.name.endswith("MIG 1g.5gb")
    assert device.usable_bytes == 4864 * MIB
    assert device.holders is None
    assert device.slice_of.startswith("GPU-")


@pytest.mark.parametrize(
    ("name", "trouble", "errors"),
    [
        pytest.param("a100-ecc", Trouble.ROWS_PENDING, 2, id="rows wait for a reset"),
        pytest.param("a100-rows-failed", Trouble.ROWS_FAILED, 9, id="a row could not be replaced"),
        pytest.param("h100-lost", Trouble.LOST, None, id="off the bus"),
        pytest.param("h100-reset-required", Trouble.RESET_REQUIRED, None, id="wants a reset"),
        pytest.param("l4-no-ecc-right", None, None, id="no right to read errors is no error"),
        pytest.param("h100-idle", None, 0, id="nothing is wrong"),
    ],
)
def test_trouble_of_a_device(name, trouble, errors):
    device = read(name)[0]
    assert (device.trouble, device.ecc_uncorrected) == (trouble, errors)


@pytest.mark.parametrize(
    ("visible", "troubles"),
    [
        pytest.param(None, [None, Trouble.LOST], id="all"),
        pytest.param("1", [Trouble.LOST], id="the lost one by number"),
        pytest.param("0", [None], id="the other one by number"),
        pytest.param(
            "GPU-6c1b3a52-0000-4000-8000-000000000000,GPU-6c1b3a52-0000-4000-8000-000000000001",
            [None, Trouble.LOST],
            id="by uuids, of which the lost one tells none",
        ),
    ],
)
def test_a_device_without_a_handle_is_lost_and_hides_no_other(visible, troubles):
    found = read("h100-no-handle", visible)
    assert [device.trouble for device in found] == troubles
    assert [device.index for device in found] == list(range(len(troubles)))


def test_a_device_whose_handle_fails_for_another_cause_is_named():
    recorded = session("h100-no-handle")
    recorded._session["calls"]["nvmlDeviceGetHandleByIndex"]["1"]["raises"] = pynvml.NVML_ERROR_UNKNOWN
    with pytest.raises(DevicesError, match="accelerator 1: Unknown Error"):
        NvmlDevices(recorded).read()


@pytest.mark.parametrize(
    ("number", "told"),
    [
        pytest.param(48, True, id="a double bit error"),
        pytest.param(79, True, id="off the bus"),
        pytest.param(95, True, id="a memory error that was not contained"),
        pytest.param(119, True, id="the device's own processor does not answer"),
        pytest.param(63, False, id="a row was replaced"),
        pytest.param(92, False, id="many single bit errors"),
        pytest.param(94, False, id="a memory error of one program"),
        pytest.param(109, False, id="a context switch that took too long"),
        pytest.param(137, False, id="an NVLink privilege error"),
        pytest.param(154, False, id="what to do after another one"),
    ],
)
def test_an_error_counts_unless_the_device_may_be_used_on(number, told):
    recorded = session("h100-idle")
    recorded._events = [{"device": "0", "eventType": 8, "eventData": number}]
    assert [xid.number for xid in NvmlDevices(recorded).xids()] == ([number] if told else [])


def test_an_error_that_a_program_can_cause_is_not_the_device_s():
    devices = NvmlDevices(session("h100-xid"))
    assert [xid.number for xid in devices.xids()] == [48]
    assert devices.xids() == []


def test_a_device_that_gives_no_events_has_none():
    assert NvmlDevices(session("a100-mig")).xids() == []


@pytest.mark.parametrize(
    ("visible", "indexes"),
    [
        pytest.param(None, [0, 1], id="all"),
        pytest.param("1", [1], id="by number"),
        pytest.param("GPU-6c1b3a52-0000-4000-8000-000000000000", [0], id="by uuid"),
        pytest.param("0,1", [0, 1], id="a list"),
    ],
)
def test_only_visible_devices_are_read(visible, indexes):
    found = read("h100-idle", visible)
    assert [int(device.uuid[-1]) for device in found] == indexes


@pytest.mark.parametrize("visible", ["", "-1"])
def test_hidden_devices_are_as_if_there_were_none(visible):
    with pytest.raises(DevicesError) as caught:
        read("h100-idle", visible)
    assert caught.value.absent


def test_this_machine_s_own_driver_is_read_as_the_recorded_ones_are():
    if not has_devices():
        with pytest.raises(DevicesError) as caught:
            NvmlDevices(visible="0").read()
        assert str(caught.value), "this machine has no device: the recorded sessions are the test"
        return
    live, played = NvmlDevices(pynvml), NvmlDevices(RecordedNvml(record()))
    now, then = live.read(), played.read()
    assert [(one.name, one.uuid, one.usable_bytes) for one in now] == [
        (one.name, one.uuid, one.usable_bytes) for one in then
    ]
    assert all(one.usable_bytes > 0 for one in now)
    assert isinstance(live.xids(), list)
