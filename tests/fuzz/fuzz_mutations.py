"""Changes to a JSON value as people, old versions and other controllers make them: drop, retype, blow up, garble."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from fuzz_values import TIMES, corpus, field_value

from modelfleet.api.schema import ApiModel

Path = tuple[Any, ...]

ODD_TEXT = (
    "",
    " ",
    "\x00",
    "\x7f\x1b[31m",
    "line\nline\r\n",
    "ünïcode-日本語-🚀",
    "e\u0301\u0327\u200d",
    "\u202eright-to-left\u202c",
    "\ufeff",
    "\ufffd",
    "{{ .Values.name }}",
    "${HOME}",
    "../../etc",
    "'; DROP TABLE pods; --",
    "-1",
    "1e400",
    "NaN",
    "true",
    "null",
    "a" * 63,
    "a" * 64,
    "a" * 253,
    "A_B.C",
    '{"reason": "EngineDied", "message": "\\ud800"}',
    '{"reason": "EngineDied", "message": "died", "remedy": "none"}',
    "[" * 200,
    *TIMES,
)
NUMBERS = (
    0,
    1,
    -1,
    2,
    63,
    1000,
    1001,
    2**31 - 1,
    2**31,
    2**53,
    2**63 - 1,
    -(2**63),
    0.5,
    -0.0,
    1e18,
    1e308,
    5e-324,
)
"""As the API server hands them out: whole numbers of 64 bits, and floats."""


def paths(value: Any, here: Path = ()) -> list[Path]:
    """Every place in a JSON value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [here]
    for key, part in parts:
        if len(found) > 2000:  # of a blown-up object the rest is alike
            break
        found += paths(part, (*here, key))
    return found


def at(value: Any, path: Path) -> Any:
    """What stands at a place."""
    for step in path:
        value = value[step]
    return value


def spoil(rng: Random, value: Any, kept: Callable[[Path], bool] = lambda _: False) -> None:
    """Makes one change in place; places that `kept` names, and those above them, are left alone."""
    path = _place(rng, value, kept)
    if not path:
        return
    parent, last = at(value, path[:-1]), path[-1]
    change = rng.choice(_CHANGES)
    change(rng, parent, last, value)


def _place(rng: Random, value: Any, kept: Callable[[Path], bool]) -> Path:
    """A place below `value`, by steps at random; empty if none was found. A step may begin anew."""
    for _ in range(20):
        path, part = tuple[Any, ...](), value
        while isinstance(part, dict | list) and part:
            key = rng.choice(list(part)) if isinstance(part, dict) else rng.randrange(len(part))
            path, part = (*path, key), part[key]
            if not kept(path) and rng.random() < 0.3:
                break
        if path and not kept(path):
            return path
    return ()


def grow(rng: Random, raw: Any, model: type[ApiModel]) -> None:
    """Sets one field, anywhere below `raw`, to a value of its type; the field may not have been there."""
    while True:
        alias = rng.choice(list(model.aliases()))
        field = model.field(alias)
        inner = _inner(field.annotation)
        part = raw.get(alias)
        if isinstance(part, list) and part and inner is not None and rng.random() < 0.8:
            part = rng.choice(part)
        if inner is None or not isinstance(part, dict) or rng.random() < 0.2:
            raw[alias] = field_value(rng, field)
            return
        raw, model = part, inner


def _inner(annotation: Any) -> type[ApiModel] | None:
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation if issubclass(annotation, ApiModel) else None
    return next(filter(None, map(_inner, getattr(annotation, "__args__", ()))), None)


def odd(rng: Random, depth: int = 0) -> Any:
    """Any JSON value."""
    kind = rng.randrange(7 if depth < 3 else 5)
    if kind == 0:
        return None
    if kind == 1:
        return rng.random() < 0.5
    if kind == 2:
        return rng.choice(NUMBERS)
    if kind == 3:
        return rng.choice(ODD_TEXT)
    if kind == 4:
        return rng.choice(corpus())
    if kind == 5:
        return [odd(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice((*corpus()[:80], *ODD_TEXT)): odd(rng, depth + 1) for _ in range(rng.randrange(4))}


def _drop(rng: Random, parent: Any, last: Any, root: Any) -> None:
    del parent[last]


def _null(rng: Random, parent: Any, last: Any, root: Any) -> None:
    parent[last] = None


def _retype(rng: Random, parent: Any, last: Any, root: Any) -> None:
    parent[last] = odd(rng)


def _other_place(rng: Random, parent: Any, last: Any, root: Any) -> None:
    parent[last] = json.loads(json.dumps(at(root, rng.choice(paths(root)))))


def _more(rng: Random, parent: Any, last: Any, root: Any) -> None:
    """A list with an item twice, a map with one more key, a string with another form."""
    value = parent[last]
    if isinstance(value, list) and value:
        value.insert(rng.randrange(len(value) + 1), json.loads(json.dumps(rng.choice(value))))
    elif isinstance(value, dict):
        value[rng.choice(corpus())] = odd(rng)
    elif isinstance(value, str):
        parent[last] = rng.choice((value.upper(), value[:-1], f"{value}é", f"{value}\u200b", f" {value}", value * 2))
    elif isinstance(value, int | float):
        parent[last] = value + rng.choice((-1, 1)) if abs(value) < 2**62 else value
    else:
        parent[last] = odd(rng)


def _huge(rng: Random, parent: Any, last: Any, root: Any) -> None:
    value = parent[last]
    size = rng.choice((64, 64, 300, 2000))
    if isinstance(value, list) and value:
        parent[last] = [json.loads(json.dumps(value[index % len(value)])) for index in range(min(size, 300))]
    elif isinstance(value, dict):
        value.update({f"more-{number}": "x" for number in range(size)})
    elif isinstance(value, int | float):
        parent[last] = rng.choice((2**31, 2**53, 2**63 - 1, -(2**63), 1e308))
    else:
        parent[last] = rng.choice("xß🚀") * rng.choice((64, 254, 1025, 5000))


def _garble(rng: Random, parent: Any, last: Any, root: Any) -> None:
    parent[last] = rng.choice(ODD_TEXT)


def _number(rng: Random, parent: Any, last: Any, root: Any) -> None:
    parent[last] = rng.choice(NUMBERS)


_CHANGES = (_drop, _drop, _null, _retype, _other_place, _more, _more, _huge, _garble, _number)
