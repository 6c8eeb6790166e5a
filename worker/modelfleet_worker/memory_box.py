"""The last words of a container that may be killed whole. Writes the termination message.

With cgroup v2 the kubelet has the kernel kill all processes of a container at once when its memory is used up, so the
worker cannot explain it afterwards. While memory is short it therefore keeps a provisional account in the termination
message; the operator believes it only if the kubelet says OOMKilled.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path

from modelfleet_worker.cgroup import Memory, Node
from modelfleet_worker.failure import Failure
from modelfleet_worker.memory_samples import Sample

_SHORT_LIMIT = 0.9  # of the container's limit in use, file caches left out
_SHORT_NODE = 0.03  # of the node's memory left; the kubelet evicts before that, unless memory goes within seconds
_PERIOD_S = 1.0


class BlackBox:
    """Writes `path` at most once a second, and only what it wrote itself is cleared."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written_at_s: float | None = None

    def keep(self, account: Callable[[], Failure]) -> None:
        """Writes what `account` says, which is asked for only when it is written."""
        now_s = time.monotonic()
        if self._written_at_s is not None and now_s - self._written_at_s < _PERIOD_S:
            return
        with suppress(OSError):  # without it a death is told by the kubelet's word alone
            self._path.write_text(replace(account(), provisional=True).to_json())
            self._written_at_s = now_s

    def clear(self) -> None:
        """What was foreseen did not come. The file stays: in a pod it is a mount."""
        if self._written_at_s is not None:
            with suppress(OSError):
                self._path.write_text("")
            self._written_at_s = None


def spare_bytes(host: Memory, node: Node | None) -> float:
    """What may still be taken before memory is short and the kernel may soon have to kill; infinite where nothing
    limits it."""
    of_node = inf if node is None else node.available_bytes - _SHORT_NODE * node.total_bytes
    if host.limit_bytes is None:
        return of_node
    return min(of_node, _SHORT_LIMIT * host.limit_bytes - (host.used_bytes - host.cache_bytes))


def counted(sample: Sample) -> Sample:
    """The sample as it will be after the kill."""
    host = sample.host
    return replace(sample, host=replace(host, oom_kills=host.oom_kills + 1)) if host is not None else sample
