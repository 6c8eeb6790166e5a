"""Who may scale to zero: each row of the policy, by the API's rules and by the operator's acceptance, in words."""

from pathlib import Path
from typing import Any

import pytest

from builders import accelerator_class, condition, deployment, world
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.parse import strict_faults
from modelfleet.core.reconcile import plan

PAGE = Path(__file__).parent / "stories" / "zero-policy.txt"
LOST = [{"name": "lucky", "canBeReacquired": False}]
MIXED = [*LOST, {"name": "on-demand", "provisioning": "Autoscaled"}]

Row = tuple[str, dict[str, Any], dict[str, Any]]


def _objective(ttft: str, caller: str | None = None) -> dict[str, Any]:
    one = {**deployment()["spec"]["objectives"][0], "ttft": ttft}
    return one | ({"firstCaller": caller} if caller else {})


def _row(said: str, *objectives: dict[str, Any], supplies: list[dict[str, Any]] | None = None, **scaling: Any) -> Row:
    terms = {"minReplicas": 0, "toZero": {"after": "15m", "firstCallerWaits": "5m"}, **scaling}
    return said, {"objectives": list(objectives), "scaling": terms}, {"supplies": supplies or []}


ROWS = (
    _row("interactive, and its first caller counts", _objective("500ms")),
    _row("interactive, and its first caller is excused", _objective("500ms", "Excused")),
    _row("batch, and its first caller can wait", _objective("10m")),
    _row(
        "one excused and one that counts",
        _objective("500ms", "Excused"),
        {**_objective("2s"), "name": "tools"},
    ),
    _row("no supply can be reacquired", _objective("10m"), supplies=LOST),
    _row("one supply of two can be reacquired", _objective("10m"), supplies=MIXED),
    _row("minReplicas 1", _objective("10m"), minReplicas=1),
    _row("minReplicas 0 without toZero", _objective("10m"), toZero=None),
)


def _verdict(row: Row) -> str:
    _, spec, of_class = row
    wanted = deployment(**spec)
    faults = strict_faults(ModelDeployment, wanted)
    if faults:
        return "refused by the API: " + "; ".join(f"{fault.path}: {fault.message}" for fault in faults)
    outcome = plan(world(wanted, classes={"cpu": accelerator_class(**of_class)}))
    status, reason, message = condition(outcome.status, "Accepted")
    return f"Accepted={status} {reason}: {message}"


def test_who_may_scale_to_zero(request: pytest.FixtureRequest) -> None:
    said = "".join(f"{row[0]}\n  {_verdict(row)}\n" for row in ROWS)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(said)

    assert PAGE.read_text() == said, "run `make golden`, then read the diff"
