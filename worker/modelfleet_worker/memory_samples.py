"""One moment of a worker's memory, and the sentences about it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from modelfleet_worker.cgroup import Held, Memory, Node
from modelfleet_worker.devices import Device

HOST_TOLERANCE_BYTES = 128 << 20
"""What others may hold in our container's memory before they are named: a shell, a probe."""

_NODE_SHARE = 0.1
_MIB, _GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, kw_only=True)
class Sample:
    """`devices` are those that the engine uses. `own_bytes` is what this process and those below it hold of the host's
    memory for themselves; `others` are the largest holders beside them that can be seen, and `on_node` those outside of
    the container too."""

    at_s: float
    devices: tuple[Device, ...] = ()
    host: Memory | None = None
    node: Node | None = None
    own_bytes: int = 0
    others: tuple[Held, ...] = ()
    on_node: tuple[Held, ...] = ()

    @property
    def host_total_bytes(self) -> int:
        """What the engine takes for the whole memory where it runs on CPU: the container's limit, else the node's."""
        limits = [self.host.limit_bytes] if self.host and self.host.limit_bytes else []
        return min([*limits, *([self.node.total_bytes] if self.node else [])], default=0)

    @property
    def host_free_bytes(self) -> int:
        """What could still be had of it; the kernel gives file caches back."""
        free = [self.node.available_bytes] if self.node else []
        if self.host and self.host.limit_bytes:
            free.append(max(0, self.host.limit_bytes - self.host.used_bytes + self.host.cache_bytes))
        return min(free, default=0)

    @property
    def host_others_bytes(self) -> int:
        """What processes that are not ours hold in our limited container; 0 without a limit, where there is none."""
        if self.host is None or self.host.limit_bytes is None:
            return 0
        return max(0, self.host.anonymous_bytes - self.own_bytes)


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """What is held by processes that are not ours. `where` names the place."""

    used_bytes: int
    where: str
    names: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """As the beginning of a sentence."""
        who = f"{' and '.join(self.names)} hold{'s' if len(self.names) == 1 else ''}" if self.names else ""
        return f"{who or 'Another process holds'} {size(self.used_bytes)} of {self.where}"


def on_devices(devices: Sequence[Device]) -> Foreign | None:
    """The most that is in use on one of the devices, at a moment when none of our processes uses any."""
    used = [device for device in devices if device.used_bytes > device.noise_bytes]
    if not used:
        return None
    worst = max(used, key=lambda device: device.used_bytes)
    return Foreign(used_bytes=worst.used_bytes, where=device_words(worst))


def in_container(ring: Sequence[Sample], after: Sample | None = None) -> Foreign | None:
    """The most that others held of the container's memory: when our processes were gone, or in two samples on end while
    they ran. One alone may have been taken while a process died, whose memory was counted and itself no more."""
    lasting = [min(pair, key=lambda sample: sample.host_others_bytes) for pair in pairwise(ring)]
    found = [*lasting, *([after] if after is not None else [])]
    worst = max(found, key=lambda sample: sample.host_others_bytes, default=None)
    if worst is None or worst.host_others_bytes < HOST_TOLERANCE_BYTES:
        return None
    return Foreign(used_bytes=worst.host_others_bytes, where="the container's memory", names=_names(worst.others))


def on_node(sample: Sample, at_least_bytes: int) -> Foreign | None:
    """A single process that holds a tenth of the node or more, and at least so much. A node has smaller ones."""
    least_bytes = max(at_least_bytes, _NODE_SHARE * sample.host_total_bytes)
    large = [held for held in sample.on_node if held.anonymous_bytes >= least_bytes]
    if not large:
        return None
    return Foreign(used_bytes=large[0].anonymous_bytes, where="the node's memory", names=_names(large[:1]))


def device_words(device: Device) -> str:
    """A device as users find it again."""
    return f"accelerator {device.index} ({device.name})"


def size(count_bytes: int) -> str:
    """A size that does not move with noise: a tenth of a GiB, or ten MiB."""
    if count_bytes >= _GIB:
        return f"{count_bytes / _GIB:.1f} GiB"
    return f"{round(count_bytes / _MIB, -1):.0f} MiB" if count_bytes >= 10 * _MIB else f"{count_bytes / _MIB:.1f} MiB"


def _names(held: Sequence[Held]) -> tuple[str, ...]:
    return tuple(f"{one.name} (pid {one.pid})" for one in held[:2] if one.anonymous_bytes >= HOST_TOLERANCE_BYTES // 2)
