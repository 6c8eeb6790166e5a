"""A cluster in memory where pods do not end: on nodes that are not ready, as under a dead kubelet, or as they hang."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from builders import Raw, merged
from modelfleet.core import raw
from modelfleet.core.placement.project import node_entry
from modelfleet.core.stage import Happening, Stage


@dataclass
class SilentStage(Stage):
    """The stage; `fall_silent` kills a node's kubelet. Pods of the names in `hanging` never end."""

    hanging: set[str] = field(default_factory=set)

    def fall_silent(self, name: str) -> None:
        """The node is not ready any more, and its pods are asked to end, as Kubernetes does after some minutes."""
        silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        self.nodes[name] = merged(self.nodes[name], silent)
        for pod in self.pods():
            if raw.text(pod, "spec", "nodeName") == name:
                self.delete(("Pod", raw.name(pod)))

    def next(self, wake_after_s: float | None) -> Happening:
        """As on a stage, and nothing happens on silent nodes."""
        with self._aside():
            return super().next(wake_after_s)

    def happen(self, wake_after_s: float | None) -> Happening:
        """As on a stage, and nothing happens on silent nodes."""
        with self._aside():
            return super().happen(wake_after_s)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """What is on silent nodes, or hangs, is out of the way meanwhile."""
        held = {("Pod", raw.name(pod)): pod for pod in self.pods() if self._stays(pod)}
        for key in held:
            del self.objects[key]
        try:
            yield
        finally:
            self.objects |= held

    def _stays(self, pod: Raw) -> bool:
        hangs = raw.name(pod) in self.hanging and raw.at(pod, "metadata", "deletionTimestamp") is not None
        return hangs or self._is_silent(raw.text(pod, "spec", "nodeName"))

    def _is_silent(self, name: str) -> bool:
        return name in self.nodes and not node_entry(self.nodes[name]).ready
