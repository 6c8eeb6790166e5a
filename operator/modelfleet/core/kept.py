"""NAME-state as modules of core use it: one text of JSON a key, and one write for all that changed. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.children import Children
from modelfleet.core.effects import Apply, Create, Effect
from modelfleet.core.render.state import state


def entry(state_map: Any, key: str) -> Mapping[str, Any]:
    """What the raw ConfigMap holds under `key`; empty where it holds nothing, or nothing readable."""
    try:
        found = json.loads(raw.text(state_map, "data", key))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}


def state_of(children: Children) -> Any:
    """The raw ConfigMap NAME-state; None where there is none of ours."""
    return children.config_maps.get(names.state(children.owner.name))


def keep(children: Children, entries: Mapping[str, Mapping[str, Any]]) -> Iterator[Effect]:
    """Writes `entries` by key, besides what stands there; nothing where it all stands there already."""
    stored, name = state_of(children), names.state(children.owner.name)
    before = {str(key): str(value) for key, value in raw.mapping(stored, "data").items()}
    after = before | {key: _text(value) for key, value in entries.items()}
    if after == before:
        return
    manifest = state(children.owner, after)
    if stored is not None:
        yield Apply(manifest, raw.uid(stored))
    elif ("ConfigMap", name) not in children.foreign:
        yield Create(manifest)


def keep_beside(
    children: Children, effects: tuple[Effect, ...], entries: Mapping[str, Mapping[str, Any]]
) -> tuple[Effect, ...]:
    """`effects`, and the write of `entries`: in the same write where one of them writes NAME-state already."""
    name = names.state(children.owner.name)
    for index, effect in enumerate(effects):
        if isinstance(effect, Create | Apply) and raw.name(effect.manifest) == name:
            data = {**raw.mapping(effect.manifest, "data"), **{key: _text(value) for key, value in entries.items()}}
            together = replace(effect, manifest=state(children.owner, data))
            return (*effects[:index], together, *effects[index + 1 :])
    return (*keep(children, entries), *effects)


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
