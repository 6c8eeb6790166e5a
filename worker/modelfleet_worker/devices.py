"""The accelerators that this container sees: the seam between us and a driver's library. Pure.

In a pod the driver's process ids are the node's and cannot be resolved, so what others hold is what the device has in
use less what our own processes hold: all of it before the engine starts, and again when it is gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Trouble(StrEnum):
    """What makes a device unfit to start on."""

    LOST = "Lost"
    RESET_REQUIRED = "ResetRequired"
    ROWS_FAILED = "RowsFailed"
    ROWS_PENDING = "RowsPending"


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process that holds memory of a device, as the driver counts processes. `used_bytes` is None where the driver
    does not say."""

    pid: int
    used_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator, or one MIG slice, at one moment. `usable_bytes` is its memory without what the driver keeps for
    itself. `holders` is None where the driver tells no processes. `ecc_uncorrected` counts uncorrectable memory errors
    since the driver was loaded; None where there is no ECC, or no right to read it. One that is lost tells no uuid."""

    index: int
    name: str
    uuid: str
    usable_bytes: int
    used_bytes: int
    holders: tuple[Holder, ...] | None = None
    ecc_uncorrected: int | None = None
    trouble: Trouble | None = None
    slice_of: str = ""
    noise_bytes: int = 256 << 20
    """What can show as in use though no process holds it."""

    @property
    def free_bytes(self) -> int:
        """What is not in use."""
        return max(0, self.usable_bytes - self.used_bytes)


@dataclass(frozen=True)
class Xid:
    """A critical error that the driver reported, by NVIDIA's number for it. `device` is the uuid of the whole device,
    empty where it does not tell one any more. `at_s` is when it was heard of, by the monotonic clock."""

    device: str
    number: int
    at_s: float


class DevicesError(Exception):
    """The driver's library cannot be asked, or does not answer; the text is its own. `absent`: there is no such library
    on this machine, which is how a machine without such accelerators looks."""

    def __init__(self, text: str, *, absent: bool = False) -> None:
        super().__init__(text)
        self.absent = absent


class Devices(Protocol):
    """What a driver tells."""

    def read(self) -> Sequence[Device]:
        """The devices that this container sees, in the driver's order. Raises DevicesError."""

    def xids(self) -> Sequence[Xid]:
        """The critical errors since the last call; empty where the driver does not tell."""
