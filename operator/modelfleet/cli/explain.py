"""`modelfleet explain NAME`: what the operator decided for a live ModelDeployment, why, and what would change it.

The object is read through kubectl and its configuration: only the operator itself talks to the API server.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from modelfleet.api import names
from modelfleet.api.reasons import Reason
from modelfleet.cli import kubectl
from modelfleet.cli.explain_goodput import goodput_lines
from modelfleet.cli.explain_scaling import LedgerError, exported, has_numbers, replayed, scaling_lines
from modelfleet.cli.explain_zero import to_zero_lines
from modelfleet.cli.kubectl import KubectlError
from modelfleet.cli.plan_files import read_files
from modelfleet.cli.plan_flags import AskError
from modelfleet.cli.plan_text import columns, headed, wrapped
from modelfleet.cli.terminal import show
from modelfleet.cli.yaml_io import MissingExtraError, UnreadableError
from modelfleet.core import raw

_FULL = "the classes before had no room for these when they were made (kubectl describe has the event NextClassUsed)"
_FINE = {"Ready", "Accepted", "Planned", "Placed", "Available", "Progressing", "ObjectivesMet"}


class ExplainError(Exception):
    """The object cannot be had; the message is a sentence for the user."""


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "explain",
        help="say what was decided for a ModelDeployment, why, and what would change it",
        description="Reads the object with kubectl, its kubeconfig and its current context.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the ModelDeployment")
    kubectl.add_flags(parser)
    parser.add_argument(
        "-f", "--file", metavar="FILE", help="a saved object in place of a live one; - is standard input"
    )
    parser.add_argument(
        "--ledger", action="store_true", help="print the last decisions about the number of replicas, as JSON"
    )
    parser.add_argument("--replay", metavar="LEDGER", help="make the decisions of a saved ledger again, and compare")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the explanation. 0: it was found; 1: a replayed decision came out another; 2: it cannot be read."""
    try:
        if arguments.replay is not None:
            told, same = replayed(arguments.replay)
            show("\n".join(told))
            return 0 if same else 1
        if arguments.ledger:
            if arguments.name is None:
                raise ExplainError("--ledger needs the name of a ModelDeployment")
            show(exported(kubectl.state(arguments), arguments.name))
            return 0
        found = _found(arguments)
        state = kubectl.state(arguments) if arguments.name is not None and has_numbers(found) else {}
        show("\n".join(lines(found, state)))
    except (ExplainError, LedgerError, KubectlError, AskError, UnreadableError, MissingExtraError) as error:
        print(f"modelfleet: {error}", file=sys.stderr)
        return 2
    return 0


def _found(arguments: argparse.Namespace) -> Mapping[str, Any]:
    if (arguments.file is None) == (arguments.name is None):
        raise ExplainError("give the name of a ModelDeployment, or a saved one with -f")
    if arguments.name is not None:
        return kubectl.deployment(arguments)
    saved = read_files([arguments.file], None, saved=True).deployment
    if saved is None:
        raise ExplainError(f"{arguments.file}: it holds no {names.DEPLOYMENT_KIND}")
    return saved


def lines(deployment: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> Iterator[str]:
    """The explanation, line by line; `state` is what decisions remember. Reads the status leniently: another version
    may have written it."""
    status = raw.mapping(deployment, "status")
    namespace = raw.text(deployment, "metadata", "namespace")
    yield f"{raw.text(deployment, 'metadata', 'name')}" + (f" in {namespace}" if namespace else "")
    if not status:
        yield from wrapped("  The operator has not looked at it yet: it has no status.")
        return
    if raw.integer(status, "observedGeneration") < raw.integer(deployment, "metadata", "generation"):
        yield from wrapped("  The spec has changed since: what follows is of an older generation.")
    yield from _conditions(status)
    yield from _plan(status)
    yield from goodput_lines(status)
    yield from _money(status)
    yield from _scaling(status)
    yield from scaling_lines(state or {}, raw.text(deployment, "spec", "scaling", "mode"))
    yield from to_zero_lines(status)
    yield from _changes(status)


def _conditions(status: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (raw.text(one, "type"), raw.text(one, "status"), raw.text(one, "reason"), raw.text(one, "message"))
        for one in raw.items(status, "conditions")
    ]
    if rows:
        yield from headed("Conditions")
        yield from columns(("condition", "status", "reason", "message"), rows)


def _plan(status: Mapping[str, Any]) -> Iterator[str]:
    plan = raw.mapping(status, "plan")
    if not plan:
        return
    revision = raw.text(plan, "revision")
    yield from headed(f"Plan {revision}" if revision else "Plan, not carried out")
    for index, pool in enumerate(raw.items(plan, "pools")):
        if index and raw.text(pool, "role") == "Serve":
            told = "where the classes before have no room" if not raw.integer(pool, "replicas") else _FULL
            yield from wrapped(f"  {_pool(pool)}; {told}")
        else:
            yield from wrapped("  " + _pool(pool))
        predicted = raw.mapping(pool, "predicted")
        if predicted:
            yield from wrapped("  " + _predicted(predicted))
    yield from _listed("Why", raw.items(plan, "reasons"))
    rejected = [
        (raw.text(one, "class"), raw.text(one, "layout") or "all", raw.text(one, "check"), raw.text(one, "sentence"))
        for one in raw.items(plan, "rejected")
    ]
    if rejected:
        yield from headed("Rejected layouts")
        yield from columns(("class", "layout", "check", "why not"), rejected)


def _pool(pool: Mapping[str, Any]) -> str:
    weights, cache = raw.text(pool, "quantization", "weights"), raw.text(pool, "quantization", "kvCache")
    stored = f"; weights {weights}, KV cache {cache}" if weights else ""
    return (
        f"{raw.text(pool, 'role')}: {raw.integer(pool, 'replicas')} × {raw.text(pool, 'layout')} on"
        f" {raw.text(pool, 'class')}, {raw.integer(pool, 'acceleratorsPerReplica')} accelerators a replica{stored}"
    )


def _predicted(predicted: Mapping[str, Any]) -> str:
    return (
        f"{raw.text(predicted, 'source')}: TTFT {raw.text(predicted, 'ttft')} and TPOT {raw.text(predicted, 'tpot')}"
        f" for the wanted share, ± {raw.text(predicted, 'uncertainty')} %; one replica keeps the promise up to"
        f" {raw.text(predicted, 'kneeRequestsPerSecond')} requests a second, then"
        f" {raw.text(predicted, 'kneeBound')} breaks; {raw.integer(predicted, 'kvCacheTokens'):,} KV tokens"
    )


def _listed(title: str, reasons: Iterator[Mapping[str, Any]]) -> Iterator[str]:
    found = [(raw.text(one, "check"), raw.text(one, "sentence")) for one in reasons]
    if found:
        yield from headed(title)
        for check, sentence in found:
            yield from wrapped(f"  - {check}: {sentence}", "    ")


def _money(status: Mapping[str, Any]) -> Iterator[str]:
    cost = raw.mapping(status, "cost")
    if cost:
        yield from headed("Cost")
        currency = raw.text(cost, "currency")
        told = (("an hour", "perHour"), ("a million tokens", "perMillionTokens"), ("the API", "apiPerMillionTokens"))
        amounts = [f"{raw.text(cost, key)} {currency} {name}" for name, key in told if raw.text(cost, key)]
        yield from wrapped("  " + "; ".join([*amounts, *filter(None, [raw.text(cost, "sentence")])]))


def _scaling(status: Mapping[str, Any]) -> Iterator[str]:
    decision = raw.mapping(status, "scaling", "lastDecision")
    if decision:
        yield from headed("Last change of replicas")
        bound = raw.text(decision, "bound")
        yield from wrapped(
            f"  {raw.integer(decision, 'from')} → {raw.integer(decision, 'to')} at {raw.text(decision, 'at')}:"
            f" {raw.text(decision, 'reason')}, {raw.text(decision, 'detail')}" + (f" ({bound})" if bound else "")
        )


def _changes(status: Mapping[str, Any]) -> Iterator[str]:
    yield from headed("What would change it")
    known = {str(reason): reason for reason in Reason}
    told: dict[str, str] = {}
    for condition in raw.items(status, "conditions"):
        reason = known.get(raw.text(condition, "reason"))
        if raw.text(condition, "status") != "True" and reason is not None and raw.text(condition, "type") in _FINE:
            told.setdefault(str(reason), reason.remedy)
    for name, remedy in told.items():
        yield from wrapped(f"  - {name}: {remedy}", "    ")
    pools = list(raw.items(status, "plan", "pools"))
    capacities = [capacity for pool in pools if (capacity := _capacity(pool)) is not None]
    if capacities:
        yield from wrapped(
            f"  - More load: above {sum(capacities):g} requests a second the promise needs more replicas on"
            f" {', else on '.join(raw.text(pool, 'class') for pool in pools)}, up to spec.scaling.maxReplicas.",
            "    ",
        )
    if raw.text(status, "plan", "revision"):
        yield from wrapped(
            "  - The plan is pinned: it changes when the spec or a class that it names changes, and not when the"
            " operator or a profile does. `modelfleet plan -f FILE` shows a changed spec's plan before it is applied.",
            "    ",
        )


def _capacity(pool: Mapping[str, Any]) -> float | None:
    """The load up to which the pool's replicas keep the promise; None where nothing is predicted."""
    try:
        return float(raw.text(pool, "predicted", "kneeRequestsPerSecond")) * raw.integer(pool, "replicas")
    except ValueError:
        return None
