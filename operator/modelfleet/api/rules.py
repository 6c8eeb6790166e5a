"""What must hold between the fields of an object, as data: each row in CEL and in Python. Pure.

The form of a single value is in values.py; a required field with an exception, and a refused one, are declared at the
field (schema.py). `rows` gives all of them in one shape.
"""

import re
from collections.abc import Iterator
from typing import Any

from modelfleet.api.acceleratorclass import AcceleratorClass, AcceleratorClassSpec, Provisioning, Supply
from modelfleet.api.engine_rules import ENGINE
from modelfleet.api.kubernetes_types import TaintEffect, Toleration, TolerationOperator
from modelfleet.api.model import MixtureFacts, Model, StatedFacts
from modelfleet.api.modeldeployment import (
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
from modelfleet.api.rule import Code, Rule
from modelfleet.api.schema import ApiModel, Needed, Refused
from modelfleet.api.sources import Scheme
from modelfleet.api.to_zero_rules import TO_ZERO

Place = tuple[str | int, ...]


def _within_context(spec: ModelDeploymentSpec) -> bool:
    limit = spec.model.max_context_tokens
    inputs = [objective.lengths.input_tokens for objective in spec.objectives]
    return limit is None or all((lengths.max or lengths.p95) <= limit for lengths in inputs)


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
        "class-names-one-resource",
        AcceleratorClassSpec,
        "[has(self.resourceName), has(self.deviceClassName)].exists_one(given, given)",
        lambda it: (it.resource_name is None) != (it.device_class_name is None),
        "a class names exactly one of resourceName (what a device plugin offers) and deviceClassName (devices of"
        " Dynamic Resource Allocation)",
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
        "min-up-to-max",
        Scaling,
        "self.minReplicas <= self.maxReplicas",
        lambda it: it.min_replicas <= it.max_replicas,
        "maxReplicas must not be below minReplicas",
        "maxReplicas",
    ),
    Rule(
        "a-schedule-is-up-to-max",
        Scaling,
        "!has(self.schedules) || self.schedules.all(s, s.minReplicas <= self.maxReplicas)",
        lambda it: all(each.min_replicas <= it.max_replicas for each in it.schedules),
        "a schedule's minReplicas must not be above maxReplicas",
        "schedules",
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
    draft = spec.speculation.model
    return draft is None or {draft.claim} == {source.claim for source in spec.model.sources}


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
        " || !self.speculation.model.startsWith('pvc://') || !self.model.source.contains('://')"
        " || ([self.model.source] + (has(self.model.variants) ? self.model.variants.map(v, v.source) : []))"
        ".all(s, s.startsWith('pvc://') && s.split('/')[2] == self.speculation.model.split('/')[2])",
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

_SOURCES = "([self.source] + (has(self.variants) ? self.variants.map(v, v.source) : []))"
_FETCHED = f"{_SOURCES}.exists(s, s.matches('^(hf|s3|oci)://'))"

_WEIGHTS: tuple[Rule[Any], ...] = (
    Rule(
        "an-endpoint-serves-one-scheme",
        Model,
        f"!has(self.endpoint) || {_SOURCES}.all(s, s.startsWith('hf://')) || {_SOURCES}.all(s, s.startsWith('s3://'))",
        lambda it: it.endpoint is None or {source.scheme for source in it.sources} in ({Scheme.HF}, {Scheme.S3}),
        "endpoint is the server of hf:// or of s3:// sources: the source and all variants must be of that one scheme",
        "endpoint",
    ),
    Rule(
        "credentials-are-for-what-is-fetched",
        Model,
        f"!has(self.credentialsSecretRef) || {_FETCHED}",
        lambda it: it.credentials_secret_ref is None or it.is_fetched,
        "credentialsSecretRef is for sources that are fetched (hf, s3, oci): leave it out",
        "credentialsSecretRef",
    ),
    Rule(
        "a-cache-is-for-what-is-fetched",
        Model,
        f"!has(self.cache) || {_FETCHED}",
        lambda it: it.cache is None or it.is_fetched,
        "cache is for sources that are fetched (hf, s3, oci): leave it out",
        "cache",
    ),
)

_SESSIONS: tuple[Rule[Any], ...] = (
    Rule(
        "a-hold-needs-the-cache-of-prefixes",
        ModelDeploymentSpec,
        "!has(self.sessions) || !has(self.sessions.hold) || !has(self.engine) || !has(self.engine.args)"
        " || !('no-enable-prefix-caching' in self.engine.args)",
        lambda it: it.sessions.hold is None or "no-enable-prefix-caching" not in it.engine.args,
        "what is held is the cache of prefixes: take the flag no-enable-prefix-caching out of engine.args",
        "sessions.hold",
    ),
)

CHECKS: tuple[Rule[Any], ...] = _FIELDS + TO_ZERO + ENGINE + _TOLERATIONS + _LAYOUT + _WEIGHTS + _SESSIONS
_CHECKED = {kind: tuple(rule for rule in CHECKS if rule.on is kind) for kind in {rule.on for rule in CHECKS}}
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
        for rule in _CHECKED.get(type(part), ()):
            if rule.holds is not None and not rule.holds(part):
                said = rule.message if isinstance(rule.message, str) else rule.message.text(part)
                yield (*place, *filter(None, rule.field.split("."))), said
        for name, value in part:
            yield from broken(value, (*place, type(part).model_fields[name].alias or name))
    elif isinstance(part, tuple):
        for index, item in enumerate(part):
            yield from broken(item, (*place, index))
