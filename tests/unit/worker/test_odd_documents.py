"""plan.json and promise.json of every kind that nobody means: what comes of them is a value or one sentence."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from modelfleet_worker.fetch.order import OrderError, parse_order
from modelfleet_worker.plan import PlanError, parse_plan
from modelfleet_worker.promise import PromiseError, parse_promise

PLAN: dict[str, Any] = {
    "revision": "1a2b3c4d",
    "model": {"path": "/models/claim", "servedNames": ["chat"]},
    "engine": {"python": "/opt/python", "args": ["--seed=1"], "env": {"A": "b"}, "version": "0.32.0"},
    "limits": {"startDeadline_s": 9, "drain_s": 9, "propagation_s": 1, "drainTokenSha256": "a" * 64},
    "memory": {"device": "Cpu", "accelerator_bytes": 1024},
    "group": {"nodes": 2, "data": 2, "masterPort": 29500},
    "weights": {
        "source": "hf://org/model@main",
        "revision": "f" * 40,
        "key": "k1",
        "root": "/weights",
        "shared": True,
        "endpoint": "http://hub",
        "sizeBytes": 10,
        "maxAge_s": 60,
        "pickledWeights": "Allow",
    },
}
PROMISE: dict[str, Any] = {
    "digest": "0123456789ab",
    "callers": ["a" * 64],
    "hold": {"header": "X-Tier", "values": ["gold"], "maxGap_s": 10, "maxShareOfCache": 0.1},
    "objectives": [
        {
            "name": "chat",
            "ttft_s": 1,
            "tpot_s": 0.1,
            "inputMaxTokens": 4096,
            "inputEdges": [512],
            "outputEdges": [128],
            "firstCallerWaits_s": 60,
        }
    ],
}
ODD = {
    "an integer without end": "10" * 300,
    "a float without end": "1e999",
    "a negative number": "-1",
    "not a number": "NaN",
    "nothing": "null",
    "a truth": "true",
    "half of a surrogate pair": '"\\ud800"',
    "a NUL": '"/a\\u0000b"',
    "an empty list": "[]",
    "an empty object": "{}",
    "an empty text": '""',
    "a list of nothing": "[null]",
    "an object of nothing": '{"a": null}',
    "a long text": '"' + "x" * 100_000 + '"',
    "a deep list": "[" * 100_000,
    "a deep object": '{"a":' * 100_000,
}
DOCUMENTS = {
    "plan": (PLAN, parse_plan, PlanError),
    "order": (PLAN, parse_order, OrderError),
    "promise": (PROMISE, parse_promise, PromiseError),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def with_odd(value: Any, path: tuple[Any, ...], odd: str) -> str:
    """The document as text, with `odd` in one place."""
    if not path:
        return odd
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = "@@"
    return json.dumps(copy).replace('"@@"', odd)


def refusal(parse: Callable[[str], Any], text: str, error: type[Exception]) -> str:
    """The sentence; `taken` without one. Any other exception is a bug."""
    try:
        parse(text)
    except error as said:
        return str(said)
    return "taken"


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_value_anywhere_is_refused_in_a_short_sentence_or_means_nothing(name: str, odd: str) -> None:
    document, parse, error = DOCUMENTS[name]
    for path in places(document):
        said = refusal(parse, with_odd(document, path, odd), error)
        assert said.startswith(("plan.json", "promise.json", "taken"))
        assert len(said) < 600


@pytest.mark.parametrize(
    ("parse", "value", "path", "odd", "says"),
    [
        pytest.param(
            parse_plan, PLAN, ("limits", "drain_s"), "10" * 300, "limits.drain_s must be a number of", id="seconds"
        ),
        pytest.param(parse_plan, PLAN, ("engine", "args", 0), '"\\u0000"', "engine.args must be without", id="a NUL"),
        pytest.param(parse_plan, PLAN, ("engine", "env"), '{"A=B": "c"}', "engine.env must be an object", id="env"),
        pytest.param(parse_plan, PLAN, ("group", "nodes"), "1" * 12, "group.nodes must be at most", id="ranks"),
        pytest.param(parse_plan, PLAN, (), "[" * 100_000, "nested too deep", id="depth"),
        pytest.param(
            parse_promise, PROMISE, ("objectives", 0, "name"), '"\\ud800"', "objectives[0].name must be", id="a name"
        ),
        pytest.param(parse_promise, PROMISE, ("hold", "header"), '"a b"', "hold.header must be the name", id="header"),
        pytest.param(
            parse_promise,
            PROMISE,
            ("objectives", 0, "inputEdges", 0),
            "10" * 300,
            "objectives[0].inputEdges must be a whole number",
            id="an edge",
        ),
        pytest.param(
            parse_order, PLAN, ("weights", "sizeBytes"), "1e999", "weights.sizeBytes must be a whole", id="bytes"
        ),
        pytest.param(
            parse_order, PLAN, ("weights", "key"), '"../x"', "weights.key must be 1 to 64 letters", id="a key"
        ),
        pytest.param(parse_order, PLAN, ("weights", "root"), '"w"', "weights.root must be an absolute", id="a folder"),
    ],
)
def test_what_is_wrong_is_named(
    parse: Callable[[str], Any], value: Any, path: tuple[Any, ...], odd: str, says: str
) -> None:
    with pytest.raises((PlanError, PromiseError, OrderError)) as caught:
        parse(with_odd(value, path, odd))
    assert says in str(caught.value)


def test_two_objectives_of_one_name_are_refused() -> None:
    twice = {**PROMISE, "objectives": PROMISE["objectives"] * 2}
    with pytest.raises(PromiseError, match="chat is there twice"):
        parse_promise(json.dumps(twice))
