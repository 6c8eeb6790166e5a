"""The models that are known, each with its line and its port. No I/O of its own.

Known models come from the objects, never from pods that were seen. Of two models that name one port, which must not be,
the older has it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from modelfleet.activator.line import Line, Surroundings
from modelfleet.activator.meter import Meter
from modelfleet.api import names
from modelfleet.core.activation import holding
from modelfleet.core.activation.known import Known, known
from modelfleet.core.activation.slices import is_of_activators, service_of, serving
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)

Key = tuple[str, str]


class Fleet:
    """Lines by model. `ports_changed` is called when other ports are wanted."""

    def __init__(self, around: Surroundings, meter: Meter, ports_changed: Callable[[], None]) -> None:
        self._around, self._meter, self._ports_changed = around, meter, ports_changed
        self.lines: dict[Key, Line] = {}
        self._by_port: dict[int, Line] = {}

    @property
    def ports(self) -> frozenset[int]:
        """The ports that are wanted."""
        return frozenset(self._by_port)

    @property
    def held(self) -> int:
        """Requests that wait, of all models."""
        return self._around.totals.requests

    def line_at(self, port: int) -> Line | None:
        """The line of the model at a port."""
        return self._by_port.get(port)

    def learn(self, keys: Iterable[Key], objects: Mapping[Key, Raw], slices: Iterable[Raw]) -> None:
        """ModelDeployments changed."""
        by_service = _by_service(slices)
        for key in keys:
            stored = objects.get(key)
            model = known(stored) if stored is not None else None
            line = self.lines.get(key)
            if line is not None and (stored is None or (model is not None and model.uid != line.model.uid)):
                line.close(holding.deleted(key[1]))
                self._drop(key)
                line = None
            if model is None:
                if line is not None and not line.held:
                    self._drop(key)
            elif line is None:
                self._meter.know(key)
                self.lines[key] = line = Line(model, self._around)
                line.serve(serving(by_service.get(_service(key), ())))
            else:
                line.learn(model)
        self._assign({key: m for key, each in objects.items() if (m := known(each)) is not None})

    def look_at_slices(self, keys: Iterable[Key], slices: Mapping[Key, Raw]) -> None:
        """These slices came, changed or went. One that went names its Service no longer, so all lines are looked at."""
        by_service = _by_service(slices.values())
        changed = {service_of(slices[key]) for key in keys if key in slices} if all(k in slices for k in keys) else None
        for key, line in self.lines.items():
            if changed is None or _service(key) in changed:
                line.serve(serving(by_service.get(_service(key), ())))

    def _drop(self, key: Key) -> None:
        del self.lines[key]
        self._meter.forget(key)

    def _assign(self, models: Mapping[Key, Known]) -> None:
        by_port: dict[int, Line] = {}
        for model in sorted(models.values(), key=lambda m: (m.created, m.key)):
            line = self.lines.get(model.key)
            if line is None:
                continue
            if model.port in by_port:
                other = by_port[model.port].model
                _log.error("%s/%s and %s/%s name port %d; the first has it", *other.key, *model.key, model.port)
            by_port.setdefault(model.port, line)
        changed, self._by_port = by_port.keys() != self._by_port.keys(), by_port
        if changed:
            self._ports_changed()


def activator_slices(slices: Iterable[Raw]) -> dict[Key, Raw]:
    """By Service: the slices that point to activators."""
    return {service_of(each): each for each in slices if is_of_activators(each)}


def service_key(model: Known) -> Key:
    """The Service of a model."""
    return _service(model.key)


def _service(key: Key) -> Key:
    return key[0], names.child(key[1])


def _by_service(slices: Iterable[Raw]) -> dict[Key, list[Raw]]:
    found: dict[Key, list[Raw]] = {}
    for each in slices:
        found.setdefault(service_of(each), []).append(each)
    return found
