"""When a fault of a device is the cause of a death, and when it only came at some time."""

from typing import Any

import pytest

from modelfleet_worker.devices import Device, Trouble, Xid
from modelfleet_worker.engine_settings import engine_settings
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.memory_cause import Facts, account
from modelfleet_worker.memory_log import Said
from modelfleet_worker.memory_samples import Sample

DIED = Failure(reason=Reason.ENGINE_DIED, message="It died.", remedy="", phase="serving")
FULL = Failure(reason=Reason.DISK_FULL, message="It is full.", remedy="", phase="serving")
DIED_AT_S = 3600.0


def device(index: int, **more: Any) -> Device:
    known = {"name": "NVIDIA H100 80GB HBM3", "uuid": f"GPU-{index}", "usable_bytes": 79 << 30, "used_bytes": 0}
    return Device(index=index, **(known | more))


def found(failure: Failure, *xids: Xid, now: tuple[Device, ...] | None = None, **before: Any) -> Failure:
    """The account of a death of an engine on the first two of three devices; `now` are they when it is over, None where
    the driver does not answer."""
    devices = tuple(device(index, **before) for index in range(3))
    left = devices if now is None else now
    facts = Facts(
        settings=engine_settings(["--tensor-parallel-size=2"]),
        said=Said(),
        before=Sample(at_s=0.0, devices=devices),
        after=Sample(at_s=DIED_AT_S, devices=left),
        xids=xids,
    )
    return account(failure, facts)


@pytest.mark.parametrize(
    ("xid", "faulty"),
    [
        pytest.param(Xid("GPU-1", 79, DIED_AT_S - 2.0), True, id="just before, on a device of the engine"),
        pytest.param(Xid("GPU-1", 79, DIED_AT_S - 61.0), False, id="a minute before"),
        pytest.param(Xid("GPU-2", 79, DIED_AT_S - 2.0), False, id="on a device that the engine does not use"),
        pytest.param(Xid("", 79, DIED_AT_S - 2.0), True, id="on one that cannot tell its name any more"),
    ],
)
def test_an_error_that_the_driver_reported_is_the_cause_if_it_came(xid: Xid, faulty: bool) -> None:
    assert (found(DIED, xid).reason is Reason.ACCELERATOR_FAULTY) is faulty


def test_the_first_error_of_the_last_minute_is_told() -> None:
    xids = [Xid("GPU-0", number, DIED_AT_S - ago_s) for number, ago_s in ((48, 900.0), (95, 9.0), (79, 1.0))]
    assert found(DIED, *xids).evidence["xid"] == 95


def test_an_error_of_the_device_that_a_slice_is_of_is_the_slice_s() -> None:
    whole = Xid("GPU-whole", 79, DIED_AT_S - 2.0)
    assert found(DIED, whole, slice_of="GPU-whole").reason is Reason.ACCELERATOR_FAULTY


@pytest.mark.parametrize(
    ("now", "faulty"),
    [
        pytest.param((device(0), device(1, trouble=Trouble.LOST)), True, id="one of the engine's is off the bus"),
        pytest.param((device(0), device(1, trouble=Trouble.RESET_REQUIRED)), True, id="one of them wants a reset"),
        pytest.param((device(0), device(1), device(2, trouble=Trouble.LOST)), False, id="another one is off the bus"),
        pytest.param((), False, id="the driver does not answer"),
    ],
)
def test_what_a_device_is_like_when_it_is_over_tells_the_cause(now: tuple[Device, ...], faulty: bool) -> None:
    assert (found(DIED, now=now).reason is Reason.ACCELERATOR_FAULTY) is faulty


def test_a_death_that_its_own_words_explain_is_not_blamed_on_a_device() -> None:
    lost = (device(0), device(1, trouble=Trouble.LOST))
    assert found(FULL, Xid("GPU-1", 79, DIED_AT_S - 2.0), now=lost) is FULL
