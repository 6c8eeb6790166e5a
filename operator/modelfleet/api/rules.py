"""What must hold between the fields of an object, as data: each row in CEL and in Python. Pure.

The form of a single value is in values.py; a required field with an exception, and a refused one, are declared at the
field (schema.py). `rows` gives all of them in one shape.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from modelfleet.api.acceleratorclass import AcceleratorClass, AcceleratorClassSpec, Provisioning, Supply
from modelfleet.api.engine_options import REFUSED_FLAGS, SWITCHES, VALUE_FLAGS
from modelfleet.api.kubernetes_types import TaintEffect, Toleration, TolerationOperator
from modelfleet.api.model import MixtureFacts, StatedFacts
from modelfleet.api.modeldeployment import (
    Engine,
    InputLengths,
    Lengths,
    Load,
    ModelDeployment,
    ModelDeploymentSpec,
    OutputLengths,
    Parallelism,
    Scaling,
    Speculation,
    SpeculationMethod,
    Strategy,
)
from modelfleet.api.modelprofile import ModelProfile
from modelfleet.api.rollout import Rollout
from modelfleet.api.schema import ApiModel, Needed, Refused

M = TypeVar("M", bound=ApiModel)
Place = tuple[str | int, ...]


class Code(StrEnum):
    """What kind of fault the API server reports."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    FORBIDDEN = "FieldValueForbidden"


@dataclass(frozen=True)
class Words:
    """A sentence with a part that depends on the object: as a CEL expression, and in Python."""

    cel: str
    text: Callable[[Any], str]


@dataclass(frozen=True)
class Rule(Generic[M]):
    """A row: what must hold for every `on`, in CEL (`self` is that object) and in Python, and the sentence if not.

    `field` is the field that the fault is reported at, below `on`; empty is `on` itself. `holds` is None where the
    parser itself refuses (a required or a refused field).
    """

    id: str
    on: type[M]
    cel: str
    holds: Callable[[M], bool] | None
    message: str | Words
    field: str = ""
    code: Code = Code.INVALID


def _quoted(names: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in sorted(names)) + "]"


_FLAGS = VALUE_FLAGS | SWITCHES | REFUSED_FLAGS.keys()
_BARE = ("", "true")


def _within_context(spec: ModelDeploymentSpec) -> bool:
    limit = spec.model.max_context_tokens
    inputs = [objective.lengths.input_tokens for objective in spec.objectives]
    return limit is None or all((lengths.max or lengths.p95) <= limit for lengths in inputs)


def _refuses(flag: str, why: str) -> Rule[Engine]:
    return Rule(
        f"flag-{flag}-is-refused",
        Engine,
        f"!has(self.args) || !('{flag}' in self.args)",
        lambda it: flag not in it.args,
        f"the flag {flag} is refused: {why}",
        "args",
        Code.FORBIDDEN,
    )


def _first(names: Iterable[str]) -> str:
    return min(names)


_FIELDS: tuple[Rule[Any], ...] = (
    Rule(
        "name-fits-a-service",
        ModelDeployment,
        "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        lambda it: re.fullmatch("[a-z]([-a-z0-9]{0,61}[a-z0-9])?", it.metadata.name) is not None,
        "metadata.name becomes a Service's name: at most 63 lower-case letters, digits and '-', a letter first and no"
        " '-' last",
        "metadata.name",
    ),
    Rule(
        "load-names-one",
        Load,
        "[has(self.requestsPerSecond), has(self.concurrency)].exists_one(given, given)",
        lambda it: (it.requests_per_second is None) != (it.concurrency is None),
        "a load is exactly one of requestsPerSecond and concurrency",
    ),
    Rule(
        "input-p50-up-to-p95",
        InputLengths,
        "self.p50 <= self.p95",
        lambda it: it.p50 <= it.p95,
        "p50 must not be above p95",
        "p50",
    ),
    Rule(
        "input-p95-up-to-max",
        InputLengths,
        "!has(self.max) || self.p95 <= self.max",
        lambda it: it.max is None or it.p95 <= it.max,
        "p95 must not be above max",
        "p95",
    ),
    Rule(
        "output-p50-up-to-p95",
        OutputLengths,
        "self.p50 <= self.p95",
        lambda it: it.p50 <= it.p95,
        "p50 must not be above p95",
        "p50",
    ),
    Rule(
        "prefix-inside-input",
        Lengths,
        "!has(self.sharedPrefixTokens) || self.sharedPrefixTokens <= self.inputTokens.p95",
        lambda it: it.shared_prefix_tokens is None or it.shared_prefix_tokens <= it.input_tokens.p95,
        "sharedPrefixTokens must not be above inputTokens.p95: the prefix is a part of the prompt",
        "sharedPrefixTokens",
    ),
    Rule(
        "lengths-inside-context",
        ModelDeploymentSpec,
        "!has(self.model.maxContextTokens) || self.objectives.all(o, !has(o.lengths) ||"
        " (has(o.lengths.inputTokens.max) ? o.lengths.inputTokens.max : o.lengths.inputTokens.p95)"
        " <= self.model.maxContextTokens)",
        _within_context,
        "an objective's inputTokens.max (without it p95) must not be above model.maxContextTokens: such a prompt is"
        " refused",
        "objectives",
    ),
    Rule(
        "at-least-one-replica",
        Scaling,
        "self.minReplicas >= 1",
        lambda it: it.min_replicas >= 1,
        "minReplicas must be at least 1: scaling to zero does not work in this version (it comes with scaling.toZero)",
        "minReplicas",
    ),
    Rule(
        "min-up-to-max",
        Scaling,
        "self.minReplicas <= self.maxReplicas",
        lambda it: it.min_replicas <= it.max_replicas,
        "maxReplicas must not be below minReplicas",
        "maxReplicas",
    ),
    Rule(
        "a-rollout-can-move",
        Rollout,
        "!has(self.maxSurge) || self.maxSurge > 0 || !has(self.maxUnavailable) || self.maxUnavailable > 0",
        lambda it: it.max_surge > 0 or it.max_unavailable != 0,
        "maxSurge 0 and maxUnavailable 0 leave no replica that may move: allow one more or one less",
        "maxUnavailable",
    ),
)

_ENGINE: tuple[Rule[Any], ...] = (
    Rule(
        "flags-are-known",
        Engine,
        f"!has(self.args) || self.args.all(flag, flag in {_quoted(_FLAGS)})",
        lambda it: it.args.keys() <= _FLAGS,
        Words(
            f"'the flag ' + self.args.filter(flag, !(flag in {_quoted(_FLAGS)}))[0]"
            " + ' is not in the allow-list; kubectl explain mdep.spec.engine.args shows it'",
            lambda it: (
                f"the flag {_first(it.args.keys() - _FLAGS)} is not in the allow-list;"
                " kubectl explain mdep.spec.engine.args shows it"
            ),
        ),
        "args",
        Code.FORBIDDEN,
    ),
    *(_refuses(flag, why) for flag, why in REFUSED_FLAGS.items()),
    Rule(
        "switches-stand-alone",
        Engine,
        f"!has(self.args) || self.args.all(flag, !(flag in {_quoted(SWITCHES)})"
        " || string(self.args[flag]) in ['', 'true'])",
        lambda it: all(value in _BARE for flag, value in it.args.items() if flag in SWITCHES),
        'a flag that is a switch takes only the value "true" or ""; to switch it off omit it or write its no- form',
        "args",
    ),
    Rule(
        "value-flags-have-values",
        Engine,
        f"!has(self.args) || self.args.all(flag, !(flag in {_quoted(VALUE_FLAGS)})"
        " || !(string(self.args[flag]) in ['', 'true']))",
        lambda it: not any(value in _BARE for flag, value in it.args.items() if flag in VALUE_FLAGS),
        "a flag that takes a value must have one",
        "args",
    ),
)

_TOLERATIONS: tuple[Rule[Any], ...] = (
    Rule(
        "toleration-without-key-exists",
        Toleration,
        "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
        lambda it: it.key is not None or it.operator == TolerationOperator.EXISTS,
        "a toleration without key needs operator Exists",
        "operator",
    ),
    Rule(
        "toleration-exists-has-no-value",
        Toleration,
        "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
        lambda it: it.operator != TolerationOperator.EXISTS or not it.value,
        "a toleration with operator Exists takes no value",
        "value",
    ),
    Rule(
        "toleration-seconds-need-no-execute",
        Toleration,
        "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        lambda it: it.toleration_seconds is None or it.effect == TaintEffect.NO_EXECUTE,
        "tolerationSeconds needs effect NoExecute",
        "tolerationSeconds",
    ),
)


def _draft_on_the_claim(spec: ModelDeploymentSpec) -> bool:
    draft, sources = spec.speculation.model, (spec.model.source, *(each.source for each in spec.model.variants))
    return draft is None or {draft.claim} == {source.claim for source in sources}


_LAYOUT: tuple[Rule[Any], ...] = (
    Rule(
        "replicas-take-one-accelerator",
        Parallelism,
        "!has(self.strategy) || self.strategy != 'Replicas' || ((!has(self.tensor) || self.tensor == 1)"
        " && (!has(self.pipeline) || self.pipeline == 1) && (!has(self.data) || self.data == 1))",
        lambda it: it.strategy != Strategy.REPLICAS or {it.tensor, it.pipeline, it.data} <= {None, 1},
        "strategy Replicas puts a replica on one accelerator: leave tensor, pipeline and data out, or write strategy"
        " Sharded",
        "strategy",
    ),
    Rule(
        "kv-heads-divide-heads",
        StatedFacts,
        "self.heads % self.kvHeads == 0",
        lambda it: it.heads % it.kv_heads == 0,
        "kvHeads must divide heads: each key and value head serves the same number of heads",
        "kvHeads",
    ),
    Rule(
        "a-head-has-a-size",
        StatedFacts,
        "has(self.headSize) || self.hiddenSize % self.heads == 0",
        lambda it: it.head_size is not None or it.hidden_size % it.heads == 0,
        "heads does not divide hiddenSize: write headSize",
        "headSize",
    ),
    Rule(
        "experts-a-token-up-to-experts",
        MixtureFacts,
        "self.expertsPerToken <= self.experts",
        lambda it: it.experts_per_token <= it.experts,
        "expertsPerToken must not be above experts",
        "expertsPerToken",
    ),
    Rule(
        "a-draft-has-a-model",
        Speculation,
        "!has(self.method) || self.method != 'eagle3' || has(self.model)",
        lambda it: it.method != SpeculationMethod.EAGLE3 or it.model is not None,
        "the method eagle3 needs model, where the draft's weights are",
        "model",
        Code.REQUIRED,
    ),
    Rule(
        "only-a-draft-has-a-model",
        Speculation,
        "!has(self.model) || (has(self.method) && self.method == 'eagle3')",
        lambda it: it.model is None or it.method == SpeculationMethod.EAGLE3,
        "model is for the method eagle3: write it as method, or leave model out",
        "model",
    ),
    Rule(
        "draft-on-the-model-s-claim",
        ModelDeploymentSpec,
        "!has(self.speculation) || !has(self.speculation.model) || !has(self.model.source)"
        " || !self.speculation.model.startsWith('pvc://') || !self.model.source.startsWith('pvc://')"
        " || (self.speculation.model.split('/')[2] == self.model.source.split('/')[2]"
        " && (!has(self.model.variants) || self.model.variants.all(v, !v.source.startsWith('pvc://')"
        " || v.source.split('/')[2] == self.speculation.model.split('/')[2])))",
        _draft_on_the_claim,
        "the draft must be on the claim of model.source and of all variants: one claim with models is mounted in this"
        " version",
        "speculation.model",
    ),
    Rule(
        "performance-is-stated-whole",
        AcceleratorClassSpec,
        "[has(self.memory), has(self.memoryBandwidth), has(self.compute)].all(given, given)"
        " || ![has(self.memory), has(self.memoryBandwidth), has(self.compute)].exists(given, given)",
        lambda it: it.is_predictable or {it.memory, it.memory_bandwidth, it.compute} == {None},
        "memory, memoryBandwidth and compute come together: write all three, or none, and then nothing is predicted",
        "memory",
    ),
    Rule(
        "a-limit-is-of-what-is-bought",
        Supply,
        "!has(self.limit) || (has(self.provisioning) && self.provisioning == 'Autoscaled')",
        lambda it: it.limit is None or it.provisioning == Provisioning.AUTOSCALED,
        "limit bounds what an autoscaler adds: write provisioning Autoscaled, or leave limit out",
        "limit",
    ),
)

CHECKS: tuple[Rule[Any], ...] = _FIELDS + _ENGINE + _TOLERATIONS + _LAYOUT
KINDS: tuple[type[ApiModel], ...] = (ModelDeployment, AcceleratorClass, ModelProfile)


def declared(model: type[ApiModel]) -> Iterator[Rule[Any]]:
    """The rows that a model declares at its fields: required with an exception, and refused."""
    for alias in model.aliases():
        for mark in model.field(alias).metadata:
            if isinstance(mark, Needed):
                cel = f"has(self.{alias}) || has(self.{mark.unless})"
                yield Rule(f"{model.__name__}-needs-{alias}", model, cel, None, mark.message, alias, Code.REQUIRED)
            if isinstance(mark, Refused):
                cel = f"!has(self.{alias})"
                yield Rule(f"{model.__name__}-refuses-{alias}", model, cel, None, mark.message, alias, Code.FORBIDDEN)


def rows(model: type[ApiModel]) -> tuple[Rule[Any], ...]:
    """Every row on `model`, in the order in which they are checked."""
    return (*declared(model), *(rule for rule in CHECKS if rule.on is model))


def broken(part: object, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Place and sentence of every row that does not hold in an object, its parts included."""
    if isinstance(part, ApiModel):
        for rule in CHECKS:
            if rule.on is type(part) and rule.holds is not None and not rule.holds(part):
                said = rule.message if isinstance(rule.message, str) else rule.message.text(part)
                yield (*place, *filter(None, rule.field.split("."))), said
        for name, value in part:
            yield from broken(value, (*place, type(part).model_fields[name].alias or name))
    elif isinstance(part, tuple):
        for index, item in enumerate(part):
            yield from broken(item, (*place, index))
