"""From a spec, its classes and what is known of the model to the planner's question. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from modelfleet.api import names
from modelfleet.api.acceleratorclass import AcceleratorClass, AcceleratorClassSpec, Provisioning
from modelfleet.api.modeldeployment import ExpertParallelism, ModelDeployment, ModelDeploymentSpec, SpeculationMode
from modelfleet.api.modeldeployment import Objective as ApiObjective
from modelfleet.api.modelprofile import ModelProfile
from modelfleet.api.parse import parse_profile
from modelfleet.api.quantization import CacheScheme, OnlineQuantization
from modelfleet.core import raw
from modelfleet.core.hardware import Hardware
from modelfleet.core.inputs import promised
from modelfleet.core.layout import question as asked
from modelfleet.core.layout.question import Question
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts, Scheme
from modelfleet.core.perf.profile import Profile
from modelfleet.core.placement.view import NodeView
from modelfleet.core.plan import mounted
from modelfleet.core.snapshot import Inventory

_UNSTATED_FABRIC_BYTES_PER_S = 1e9
"""Between accelerators of a class that states no fabric. No layout is chosen that depends on it: the domain is one."""

_ONE_LINE_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kKmMgG]?)")
_SCALE = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
"""vLLM's own: a small letter is a power of 1000, a capital one of 1024."""


class AskError(ValueError):
    """The spec holds a value that the planner cannot use; the text is one sentence with the field's path."""


@dataclass(frozen=True)
class Ask:
    """What a question is made from. `classes` are those that the spec lists and that state their performance."""

    deployment: ModelDeployment
    classes: tuple[AcceleratorClass, ...]
    facts: ModelFacts


def question(ask: Ask, inventory: Inventory | None) -> Question:
    """The question. Raises AskError."""
    spec = ask.deployment.spec
    return Question(
        variants=_variants(spec, ask.facts),
        candidates=tuple(_candidate(each, spec, inventory) for each in ask.classes),
        objectives=tuple(map(_objective, spec.objectives)),
        prefer=asked.Prefer(spec.accelerators.prefer.value),
        pins=_pins(spec),
        bounds=asked.Bounds(
            min_replicas=spec.scaling.min_replicas,
            max_replicas=spec.scaling.max_replicas,
            max_accelerators=spec.scaling.max_accelerators,
        ),
        max_context_tokens=spec.model.max_context_tokens,
        allow_online_quantization=spec.quantization.online is OnlineQuantization.ALLOW,
        engine_version=str(spec.engine.version or ""),
        speculation=_speculation(spec),
        economics=economics_wish(spec),
        profiles=tuple(_measured(inventory, ask)),
    )


def hardware(kind: AcceleratorClass) -> Hardware:
    """The class as arithmetic sees it. ValueError: it states no performance."""
    spec = kind.spec
    if spec.memory is None or spec.memory_bandwidth is None or spec.compute is None:
        raise ValueError(f"AcceleratorClass {kind.metadata.name} states no memory, memoryBandwidth and compute")
    flops = {name: float(rate.exact) for name, rate in spec.compute if rate is not None}
    network = float(spec.network.bandwidth.exact) if spec.network else 0.0
    fabric = float(spec.fabric.bandwidth.exact) if spec.fabric else network or _UNSTATED_FABRIC_BYTES_PER_S
    return Hardware(
        name=kind.metadata.name,
        memory_bytes=spec.memory.bytes,
        memory_bytes_per_s=float(spec.memory_bandwidth.exact),
        flops=flops,
        compute_capability=spec.compute_capability.pair if spec.compute_capability else None,
        accelerators_per_node=spec.accelerators_per_node,
        domain=_domain(spec),
        fabric_bytes_per_s=fabric,
        network_bytes_per_s=network,
    )


def economics_wish(spec: ModelDeploymentSpec) -> asked.EconomicsWish:
    """What serving the model oneself is compared with."""
    price = spec.economics.api_price
    cached = price.cached_input_per_million_tokens if price else None
    return asked.EconomicsWish(
        api_price=asked.ApiPrice(
            input_per_million=price.input_per_million_tokens.amount,
            output_per_million=price.output_per_million_tokens.amount,
            cached_input_per_million=cached.amount if cached is not None else None,
            currency=str(price.currency),
        )
        if price
        else None,
        reasons=tuple(str(reason) for reason in spec.economics.reasons),
    )


def cheapest(kind: AcceleratorClass) -> tuple[Decimal, str] | None:
    """Price an accelerator-hour and currency of the class's cheapest supply; None where it states no price."""
    priced = [(supply.price_per_accelerator_hour, str(supply.currency)) for supply in kind.spec.supplies]
    prices = [(price.amount, currency) for price, currency in priced if price is not None]
    return min(prices, default=None)


def _domain(spec: AcceleratorClassSpec) -> int:
    if spec.fabric is None:
        return 1
    return spec.fabric.domain_size or spec.accelerators_per_node


def _variants(spec: ModelDeploymentSpec, facts: ModelFacts) -> tuple[asked.Variant, ...]:
    """The source as it is stored, then the variants."""
    found = [asked.Variant(weights=facts.native, source=spec.model.source.canonical, facts=facts)]
    for index, variant in enumerate(spec.model.variants):
        weights = Scheme(variant.weights.value)
        if weights is facts.native:
            raise AskError(
                f"spec.model.variants[{index}].weights: the source is stored in {weights} already; leave this variant"
                " out, or name it as the source"
            )
        stored = replace(facts, native=weights, quantized_attention=True, quantized_head=False, checkpoint_bytes=None)
        found.append(asked.Variant(weights=weights, source=variant.source.canonical, facts=stored))
    return tuple(found)


def _candidate(kind: AcceleratorClass, spec: ModelDeploymentSpec, inventory: Inventory | None) -> asked.Candidate:
    standard = kind.spec.standard_quantization
    host = kind.spec.host_per_accelerator
    labels = {str(k): str(v) for k, v in (kind.spec.node_selector | spec.placement.node_selector).items()}
    nodes = inventory.nodes if inventory is not None else None
    return asked.Candidate(
        name=kind.metadata.name,
        hardware=hardware(kind),
        nodes=None if nodes is None else _rooms(nodes, labels, kind.spec.requested),
        supplies=tuple(
            asked.Supply(
                name=str(each.name),
                price_per_hour=each.price_per_accelerator_hour.amount if each.price_per_accelerator_hour else None,
                currency=str(each.currency),
                limit=each.limit,
                autoscaled=each.provisioning is Provisioning.AUTOSCALED,
            )
            for each in kind.spec.supplies
        ),
        standard_weights=Scheme(standard.weights.value) if standard.weights else None,
        standard_kv=Scheme(standard.kv_cache.value) if standard.kv_cache else None,
        engine_versions=tuple(str(version) for version in kind.spec.engine_versions),
        host_memory_bytes_per_accelerator=host.memory.bytes if host.memory else None,
        host_cpus_per_accelerator=float(host.cpu.exact) if host.cpu else None,
    )


def _rooms(nodes: Iterable[NodeView], labels: Mapping[str, str], resource: str) -> tuple[asked.NodeRoom, ...]:
    """The nodes that a pod could be on, with what pods of others leave free of them."""
    rooms = []
    for node in nodes:
        total = node.allocatable.get(resource, 0)
        if total > 0 and not node.cordoned and labels.items() <= node.labels.items():
            free = min(total, max(0, node.free.get(resource, 0)))
            rooms.append(asked.NodeRoom(name=node.name, total=total, free=free))
    return tuple(sorted(rooms, key=lambda room: room.name))


def _objective(objective: ApiObjective) -> asked.Objective:
    load, lengths = objective.load, objective.lengths
    return asked.Objective(
        name=str(objective.name),
        ttft_s=objective.ttft.seconds,
        tpot_s=objective.tpot.seconds,
        share=float(objective.share.fraction),
        load_rps=float(load.requests_per_second.per_second) if load.requests_per_second else None,
        load_concurrency=float(load.concurrency) if load.concurrency else None,
        lengths=asked.LengthRegime(
            input_p50_tokens=lengths.input_tokens.p50,
            input_p95_tokens=lengths.input_tokens.p95,
            output_p50_tokens=lengths.output_tokens.p50,
            output_p95_tokens=lengths.output_tokens.p95,
            input_max_tokens=lengths.input_tokens.max,
            shared_prefix_tokens=lengths.shared_prefix_tokens or 0,
        ),
    )


def _pins(spec: ModelDeploymentSpec) -> asked.Pins:
    layout, numbers = spec.parallelism, spec.quantization
    evidence = numbers.evidence
    expert = {ExpertParallelism.ALWAYS: True, ExpertParallelism.NEVER: False}.get(layout.expert)
    fraction = _number(spec, "gpu-memory-utilization")
    return asked.Pins(
        strategy=asked.Strategy(layout.strategy.value),
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        data=layout.data,
        expert=expert,
        weights=Scheme(numbers.weights.value) if numbers.weights else None,
        kv=Scheme(numbers.kv_cache.value) if numbers.kv_cache else _flagged_kv(spec),
        evidence=asked.Evidence(
            artifact=str(evidence.artifact),
            evaluation=str(evidence.evaluation),
            engine_version=str(evidence.engine_version),
        )
        if evidence
        else None,
        sequence_cap=_whole(spec, "max-num-seqs"),
        token_budget=_whole(spec, "max-num-batched-tokens"),
        memory_fraction=fraction,
        block_tokens=_whole(spec, "block-size"),
    )


def _flagged_kv(spec: ModelDeploymentSpec) -> Scheme | None:
    """The scheme of the flag kv-cache-dtype, a second way to write quantization.kvCache."""
    value = spec.engine.args.get("kv-cache-dtype", "auto")
    if value.startswith("fp8"):
        return Scheme.FP8
    return Scheme.BF16 if value in ("bfloat16", "float16") else None


def _whole(spec: ModelDeploymentSpec, flag: str) -> int | None:
    number = _number(spec, flag)
    return None if number is None else int(number)


def _number(spec: ModelDeploymentSpec, flag: str) -> float | None:
    value = spec.engine.args.get(flag)
    if value is None:
        return None
    match = _ONE_LINE_NUMBER.fullmatch(value)
    number = float(match[1]) * _SCALE[match[2]] if match else 0.0
    if number <= 0:
        raise AskError(f'spec.engine.args.{flag}: must be a number above zero, not "{value}"')
    return number


def _speculation(spec: ModelDeploymentSpec) -> asked.SpeculationWish:
    wish = spec.speculation
    return asked.SpeculationWish(
        mode=asked.SpeculationMode.OFF if wish.mode is SpeculationMode.NEVER else asked.SpeculationMode.AUTO,
        method=wish.method.value if wish.method else None,
        source=mounted(wish.model.claim, wish.model.path) if wish.model else "",
    )


def _measured(inventory: Inventory | None, ask: Ask) -> Iterable[asked.Measured]:
    """The namespace's profiles of this model, measured with the KV scheme that its class would run; those that people
    keep come before those that an operator writes, and else by name. One that breaks a rule is not one."""
    spec = ask.deployment.spec
    sources = {spec.model.source.canonical, *(variant.source.canonical for variant in spec.model.variants)}
    schemes = {each.metadata.name: _kv_scheme(spec, each) for each in ask.classes}
    promise = promised(ask.deployment)
    for item in sorted(filter(_is_object, inventory.profiles if inventory else ()), key=_precedence):
        parsed = parse_profile(item)
        if not isinstance(parsed, ModelProfile) or parsed.spec.source.canonical not in sources:
            continue
        if schemes.get(str(parsed.spec.class_)) == parsed.spec.quantization.kv_cache.value:
            yield _as_measured(parsed, promise)


def _is_object(item: object) -> bool:
    return isinstance(item, Mapping)


def _precedence(item: Any) -> tuple[bool, str]:
    return raw.text(raw.controller(item), "kind") == names.DEPLOYMENT_KIND, raw.name(item)


def _kv_scheme(spec: ModelDeploymentSpec, kind: AcceleratorClass) -> str:
    """What the user pinned, else the class's standard, else 16 bit."""
    pinned = _pins(spec).kv
    standard = kind.spec.standard_quantization.kv_cache
    return pinned.value if pinned else standard.value if standard else CacheScheme.BF16.value


def _as_measured(profile: ModelProfile, promise: str) -> asked.Measured:
    """`promise` is what is planned for: a knee that was measured for another says nothing."""
    spec, step, knee = profile.spec, profile.spec.step_time, profile.spec.knee
    counts = knee is not None and str(knee.promise) == promise
    return asked.Measured(
        class_name=str(spec.class_),
        layout=Layout.parse(str(spec.layout)),
        weights=Scheme(spec.quantization.weights.value),
        engine_version=str(spec.engine_version or ""),
        profile=Profile(
            prefill=step.prefill.number,
            decode=step.decode.number,
            overhead=step.overhead.number,
            prefill_samples=step.prefill_samples,
            decode_samples=step.decode_samples,
            kv_tokens=spec.kv_cache_tokens,
            uncertainty=(float(step.ttft_uncertainty.fraction), float(step.tpot_uncertainty.fraction)),
            knee_rps=float(knee.requests_per_second.per_second * (1 - knee.uncertainty.fraction))
            if knee is not None and counts
            else None,
        ),
        name=profile.metadata.name,
    )
