"""From a spec and its class to the pinned plan of one replica, or to the reason why there is none. Pure.

Here is what holds without predictions: the user's pins, one accelerator where there are none. What the planner of
`core.layout` chooses becomes a plan through `core.planning`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modelfleet.api.acceleratorclass import AcceleratorClass, AcceleratorClassSpec, Device
from modelfleet.api.model import PickledWeights, RemoteCode
from modelfleet.api.modeldeployment import ExpertParallelism, ModelDeployment, ModelDeploymentSpec, Strategy
from modelfleet.api.reasons import Reason
from modelfleet.api.sources import ModelSource
from modelfleet.api.values import Quantity
from modelfleet.core.inputs import BARE, canonical_tolerations
from modelfleet.core.layout.shape import Layout
from modelfleet.core.plan import NODES_LIMIT, SENTENCE, Limits, Plan, Planned, Why
from modelfleet.core.snapshot import Settings
from modelfleet.core.start_deadline import start_deadline_s
from modelfleet.core.verdict import Verdict, no
from modelfleet.core.weights import Chosen, keeps_compiled, weights_of

_SHARED_MEMORY_GIB = 2  # for each accelerator; vLLM's ranks talk through /dev/shm, and the runtime's 64 MiB break them


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What one replica is, whoever chose it. `flags` are engine flags without dashes; the user's own win over them.
    `revisions` are those that fetched sources are pinned to; `checkpoint_bytes` is None where it is not known."""

    layout: Layout
    source: ModelSource
    revisions: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    planned: Planned | None = None
    checkpoint_bytes: float | None = None


def infeasible(
    deployment: ModelDeployment, accelerator: AcceleratorClass, others: Iterable[AcceleratorClass]
) -> Verdict | None:
    """Why the spec cannot be carried out on this class without predictions; None if it can."""
    return (
        _exceeds_node(deployment.spec, accelerator, others)
        or not_allowed(deployment.spec, accelerator)
        or _needs_predictions(deployment.spec, accelerator)
    )


def not_allowed(spec: ModelDeploymentSpec, accelerator: AcceleratorClass) -> Verdict | None:
    """Whether the class refuses the engine's version, where both are stated."""
    version, allowed = spec.engine.version, accelerator.spec.engine_versions
    if version is None or not allowed or version in allowed:
        return None
    return no(
        Reason.ENGINE_VERSION_NOT_ALLOWED,
        f"spec.engine.version is {version} and class {accelerator.metadata.name} allows {', '.join(allowed)}; use an"
        " image with one of these, or have the class's engineVersions changed",
    )


def above_bound(spec: ModelDeploymentSpec, accelerators: int) -> Verdict | None:
    """Whether maxAccelerators leaves no room for minReplicas replicas of so many accelerators."""
    most, least = spec.scaling.max_accelerators, spec.scaling.min_replicas
    if most is None or least * accelerators <= most:
        return None
    return no(
        Reason.CONTRADICTION,
        f"spec.scaling.maxAccelerators is {most}, and minReplicas {least} of {accelerators} accelerators each take"
        f" {least * accelerators}; raise maxAccelerators, or lower minReplicas",
    )


def make_plan(
    deployment: ModelDeployment,
    accelerator: AcceleratorClass,
    settings: Settings,
    revisions: Mapping[str, str],
    checkpoint_bytes: float | None = None,
) -> Plan:
    """The plan of a feasible spec without predictions. Settings of the operator enter here once, and are pinned."""
    layout, source = pinned_layout(deployment.spec), deployment.spec.model.source
    choice = Choice(layout=layout, source=source, revisions=revisions, checkpoint_bytes=checkpoint_bytes)
    return plan_of(deployment, accelerator, settings, choice)


def make_others(
    deployment: ModelDeployment,
    classes: Sequence[AcceleratorClass],
    settings: Settings,
    revisions: Mapping[str, str],
    checkpoint_bytes: float | None = None,
) -> dict[str, Any]:
    """What the plan of the first class says of the listed ones after it, by fields of a plan: the plan on each that can
    carry the spec, and why another cannot."""
    others, unused = [], []
    for index, each in enumerate(classes[1:], 1):
        refused = infeasible(deployment, each, [*classes[:index], *classes[index + 1 :]])
        if refused is None:
            others.append(make_plan(deployment, each, settings, revisions, checkpoint_bytes))
        else:
            why = refused.message[:SENTENCE]
            unused.append(Why(check=str(refused.reason), sentence=why, class_name=each.metadata.name))
    return {"others": tuple(others), "unused": tuple(unused)}


def pinned_layout(spec: ModelDeploymentSpec) -> Layout:
    """What the user pinned, and 1 for what is left open."""
    pins = spec.parallelism
    expert = pins.expert is ExpertParallelism.ALWAYS
    return Layout(pins.tensor or 1, pins.pipeline or 1, pins.data or 1, expert=expert)


def plan_of(deployment: ModelDeployment, accelerator: AcceleratorClass, settings: Settings, choice: Choice) -> Plan:
    """The plan of a replica that was chosen."""
    spec, kind = deployment.spec, accelerator.spec
    layout, host = choice.layout, kind.host_per_accelerator
    nodes = layout.nodes(kind.accelerators_per_node)
    of_member = max(1, layout.accelerators // nodes)
    plan = Plan(
        image=str(spec.engine.image or settings.worker_image),
        image_pull_policy=settings.image_pull_policy,
        class_name=accelerator.metadata.name,
        device=str(kind.device),
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        data=layout.data,
        expert=layout.expert,
        resource_name=kind.requested,
        accelerators=layout.accelerators,
        nodes=nodes,
        host_cpu=_times(host.cpu, of_member),
        host_memory=_times(host.memory, of_member),
        shared_memory=f"{_SHARED_MEMORY_GIB * of_member}Gi",
        claim=choice.source.claim,
        path=choice.source.path if choice.source.claim else "",
        served_names=tuple(str(name) for name in deployment.served_names),
        installation_claim=str(spec.engine.installation_claim_name or ""),
        engine_args=_engine_args(spec, choice),
        engine_env=_engine_env(deployment, accelerator),
        node_selector={str(k): str(v) for k, v in (spec.placement.node_selector | kind.node_selector).items()},
        tolerations=tuple(canonical_tolerations((*kind.tolerations, *spec.placement.tolerations))),
        priority_class_name=str(spec.placement.priority_class_name or ""),
        image_pull_secrets=tuple(sorted({str(secret.name) for secret in spec.image_pull_secrets})),
        limits=Limits(
            start_deadline_s=start_deadline_s(settings.start_deadline_s, choice.checkpoint_bytes, _reads(kind)),
            drain_s=settings.drain_s,
            propagation_s=settings.propagation_s,
        ),
        planned=choice.planned,
        accelerator_memory=str(kind.memory or ""),
        weights=weights_of(spec.model, Chosen(choice.source, choice.revisions), accelerator, settings),
        pickled=spec.model.pickled_weights is PickledWeights.ALLOW,
        promise=True,
        engine_version=str(spec.engine.version or ""),
    )
    return plan.model_copy(update={"compiled": keeps_compiled(plan)})


def _reads(kind: AcceleratorClassSpec) -> float | None:
    """Bytes a second at which a node of the class reads; None where it does not say."""
    return float(kind.storage_bandwidth.exact) if kind.storage_bandwidth is not None else None


def _exceeds_node(
    spec: ModelDeploymentSpec, accelerator: AcceleratorClass, others: Iterable[AcceleratorClass]
) -> Verdict | None:
    layout, node, name = pinned_layout(spec), accelerator.spec.accelerators_per_node, accelerator.metadata.name
    if (nodes := layout.nodes(node)) > NODES_LIMIT:
        return no(
            Reason.NOT_ROLLED_OUT,
            f"spec.parallelism makes a replica {layout}, which is {layout.accelerators} accelerators on {nodes} nodes"
            f" of class {name}; at most {NODES_LIMIT} nodes make a replica, so choose lower degrees",
        )
    if layout.tensor <= node or _inside_fabric(layout.tensor, accelerator):
        return None
    larger = sorted(
        f"{other.metadata.name} ({other.spec.accelerators_per_node} a node)"
        for other in others
        if other.spec.accelerators_per_node >= layout.tensor
    )
    instead = f", or a class with enough: {', '.join(larger)}" if larger else ""
    return no(
        Reason.TENSOR_EXCEEDS_NODE,
        f"tensor parallelism stays inside a node: spec.parallelism.tensor is {layout.tensor} and a node of class"
        f" {name} has {node}; the nearest that works is tensor {node}{instead}",
    )


def _inside_fabric(tensor: int, accelerator: AcceleratorClass) -> bool:
    """Whether the class's fabric joins whole nodes far enough for so wide a tensor parallelism."""
    fabric, node = accelerator.spec.fabric, accelerator.spec.accelerators_per_node
    return fabric is not None and tensor <= (fabric.domain_size or node) and tensor % node == 0


def _needs_predictions(spec: ModelDeploymentSpec, accelerator: AcceleratorClass) -> Verdict | None:
    """A wish that only the planner can answer."""
    strategy, numbers = spec.parallelism.strategy, spec.quantization
    sharded = strategy is Strategy.SHARDED and pinned_layout(spec).accelerators == 1
    wished = {
        "spec.parallelism.strategy": sharded or strategy is Strategy.DISAGGREGATED,
        "spec.model.variants": bool(spec.model.variants),
        "spec.quantization": numbers.weights is not None or numbers.kv_cache is not None,
    }
    where = next((field for field, is_wished in wished.items() if is_wished), None)
    if where is None:
        return None
    return no(
        Reason.NOTHING_PREDICTED,
        f"{where} asks for a choice that needs predictions, and {states_nothing(accelerator)}; write these in the"
        f" class, or leave {where} out",
    )


def states_nothing(accelerator: AcceleratorClass) -> str:
    """What a class lacks for predictions."""
    return f"class {accelerator.metadata.name} states no performance (memory, memoryBandwidth, compute)"


def _engine_args(spec: ModelDeploymentSpec, choice: Choice) -> tuple[str, ...]:
    """The layout's and the planner's flags, then the user's in the order of their names; each flag once."""
    layout = choice.layout
    shape = {
        "tensor-parallel-size": str(layout.tensor),
        "pipeline-parallel-size": str(layout.pipeline) if layout.pipeline > 1 else "",
        "data-parallel-size": str(layout.data) if layout.data > 1 else "",
        "enable-expert-parallel": BARE if layout.expert else "",
        "max-model-len": str(spec.model.max_context_tokens or ""),
        "trust-remote-code": BARE if spec.model.remote_code is RemoteCode.ALLOW else "",
    }
    ours = {flag: value for flag, value in shape.items() if value}
    ours |= {flag: value for flag, value in sorted(choice.flags.items()) if flag not in ours}
    users = {str(flag): str(value) for flag, value in sorted(spec.engine.args.items())}
    flags = {flag: value for flag, value in ours.items() if flag not in users} | users
    return tuple(f"--{flag}" if value in ("", BARE) else f"--{flag}={value}" for flag, value in flags.items())


def _engine_env(deployment: ModelDeployment, accelerator: AcceleratorClass) -> dict[str, str]:
    """The user's variables over ours. On CPU vLLM binds every server to the first cores unless told not to."""
    env: dict[str, str] = {}
    if accelerator.spec.device is Device.CPU:
        env["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        if cpu := accelerator.spec.host_per_accelerator.cpu:
            env["OMP_NUM_THREADS"] = str(max(1, cpu.millicores // 1000))
    return env | {str(one.name): str(one.value) for one in deployment.spec.engine.env}


def _times(quantity: Quantity | None, count: int) -> str:
    """`count` times a quantity, canonical; empty where there is none."""
    if quantity is None:
        return ""
    total = quantity.exact * count
    return str(total) if total.denominator == 1 else f"{-(-total * 1000 // 1)}m"
