"""The models that are known, each with its line and its port. No I/O of its own.

Known models come from the objects, never from pods that were seen. Of two models that name one port, which must not be,
the older has it. A line goes with its object only: where an object names no port any longer, because its status was
lost or it goes to zero no more, those who still come to the port are served as before.

What is done at each event is of the model that it is about, not of all.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from modelfleet.activator.line import Line, Surroundings
from modelfleet.activator.meter import Meter
from modelfleet.api import names
from modelfleet.core.activation import holding
from modelfleet.core.activation.known import Known
from modelfleet.core.activation.slices import is_of_activators, service_of, serving
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)

Key = tuple[str, str]


class Fleet:
    """Lines by model. `ports_changed` is called when other ports are wanted."""

    def __init__(self, around: Surroundings, meter: Meter, ports_changed: Callable[[], None]) -> None:
        self._around, self._meter, self._ports_changed = around, meter, ports_changed
        self.lines: dict[Key, Line] = {}
        self._listed: set[Key] = set()
        """Of lines: those whose object names their port now."""
        self._by_port: dict[int, Line] = {}
        self._slices: dict[Key, dict[Key, Raw]] = {}
        """By Service."""
        self._services: dict[Key, Key] = {}
        """The Service of each slice."""
        self._models: dict[Key, Key] = {}
        """Of lines: the model of each Service."""

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

    def activator_slice(self, key: Key) -> Raw | None:
        """The slice that points a model's Service to activators."""
        slices = self._slices.get(_service(key), {}).values()
        return next((each for each in slices if is_of_activators(each)), None)

    def learn(self, keys: Iterable[Key], objects: Mapping[Key, Known | None]) -> None:
        """ModelDeployments came, changed or went. None: there is one, and it names no port."""
        before = {key: self._port(key) for key in keys}
        for key in before:
            if key not in objects:
                self._drop(key)
            else:
                self._learn(key, objects[key])
        if any(self._port(key) != port for key, port in before.items()):
            self._assign()

    def look_at_slices(self, keys: Iterable[Key], slices: Mapping[Key, Raw]) -> set[Key]:
        """These slices came, changed or went; the models that they are of."""
        touched = set()
        for key in keys:
            service = self._services.pop(key, None)
            if service is not None:
                touched.add(service)
                of_service = self._slices[service]
                del of_service[key]
                if not of_service:
                    del self._slices[service]
            if key in slices:
                service = self._services[key] = service_of(slices[key])
                touched.add(service)
                self._slices.setdefault(service, {})[key] = slices[key]
        models = {self._models[service] for service in touched if service in self._models}
        for key in models:
            self._serve(key)
        return models

    def _learn(self, key: Key, model: Known | None) -> None:
        line = self.lines.get(key)
        if model is None:
            self._listed.discard(key)
            return
        if line is not None and model.uid != line.model.uid:
            self._drop(key)
            line = None
        self._listed.add(key)
        if line is not None:
            line.learn(model)
            return
        self._meter.know(key)
        self._models[_service(key)] = key
        self.lines[key] = Line(model, self._around)
        self._serve(key)

    def _serve(self, key: Key) -> None:
        slices = self._slices.get(_service(key), {}).values()
        self.lines[key].serve(serving(slices), stands_in=any(map(is_of_activators, slices)))

    def _drop(self, key: Key) -> None:
        line = self.lines.pop(key, None)
        if line is None:
            return
        line.close(holding.deleted(key[1]))
        self._listed.discard(key)
        self._models.pop(_service(key), None)
        self._meter.forget(key)

    def _port(self, key: Key) -> tuple[int, bool, str] | None:
        line = self.lines.get(key)
        return (line.model.port, key in self._listed, line.model.uid) if line is not None else None

    def _assign(self) -> None:
        """Those whose objects name their port now come first, then the older ones."""
        by_port: dict[int, Line] = {}
        order = sorted(self.lines, key=lambda key: (key not in self._listed, self.lines[key].model.created, key))
        for key in order:
            line = self.lines[key]
            first = by_port.setdefault(line.model.port, line)
            if first is not line and key in self._listed:
                _log.error("%s/%s and %s/%s name port %d; the first has it", *first.model.key, *key, line.model.port)
        changed, self._by_port = by_port.keys() != self._by_port.keys(), by_port
        if changed:
            self._ports_changed()


def _service(key: Key) -> Key:
    return key[0], names.child(key[1])
