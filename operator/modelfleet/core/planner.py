"""From a spec and its class to the pinned plan of one replica, or to the reason why there is none. Pure."""

from collections.abc import Iterable

from modelfleet.api.acceleratorclass import AcceleratorClass, Device
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.reasons import Reason
from modelfleet.api.values import Quantity
from modelfleet.core.inputs import BARE, canonical_tolerations
from modelfleet.core.plan import Limits, Plan
from modelfleet.core.snapshot import Settings
from modelfleet.core.verdict import Verdict, no

_SHARED_MEMORY_GIB = 2  # for each accelerator; vLLM's ranks talk through /dev/shm, and the runtime's 64 MiB break them


def infeasible(
    deployment: ModelDeployment, accelerator: AcceleratorClass, others: Iterable[AcceleratorClass]
) -> Verdict | None:
    """Why no layout can work on this class, with the nearest that does; None if one can."""
    tensor, node = deployment.spec.parallelism.tensor, accelerator.spec.accelerators_per_node
    if tensor <= node:
        return None
    larger = sorted(
        f"{other.metadata.name} ({other.spec.accelerators_per_node} a node)"
        for other in others
        if other.spec.accelerators_per_node >= tensor
    )
    instead = f", or a class with enough: {', '.join(larger)}" if larger else ""
    return no(
        Reason.TENSOR_EXCEEDS_NODE,
        f"tensor parallelism stays inside a node: spec.parallelism.tensor is {tensor} and a node of class"
        f" {accelerator.metadata.name} has {node}; the nearest that works is tensor {node}{instead}",
    )


def make_plan(deployment: ModelDeployment, accelerator: AcceleratorClass, settings: Settings) -> Plan:
    """The plan of a feasible spec. Settings of the operator enter here once, and are pinned with the rest."""
    spec, kind = deployment.spec, accelerator.spec
    tensor = spec.parallelism.tensor
    host = kind.host_per_accelerator
    return Plan(
        image=str(spec.engine.image or settings.worker_image),
        image_pull_policy=settings.image_pull_policy,
        class_name=accelerator.metadata.name,
        device=str(kind.device),
        tensor=tensor,
        resource_name=str(kind.resource_name),
        accelerators=tensor,
        host_cpu=_times(host.cpu, tensor),
        host_memory=_times(host.memory, tensor),
        shared_memory=f"{_SHARED_MEMORY_GIB * tensor}Gi",
        claim=spec.model.source.claim,
        path=spec.model.source.path,
        served_names=tuple(str(name) for name in deployment.served_names),
        installation_claim=str(spec.engine.installation_claim_name or ""),
        engine_args=_engine_args(deployment),
        engine_env=_engine_env(deployment, accelerator),
        node_selector={str(k): str(v) for k, v in (spec.placement.node_selector | kind.node_selector).items()},
        tolerations=tuple(canonical_tolerations((*kind.tolerations, *spec.placement.tolerations))),
        priority_class_name=str(spec.placement.priority_class_name or ""),
        image_pull_secrets=tuple(sorted({str(secret.name) for secret in spec.image_pull_secrets})),
        limits=Limits(
            start_deadline_s=settings.start_deadline_s,
            drain_s=settings.drain_s,
            propagation_s=settings.propagation_s,
        ),
    )


def _engine_args(deployment: ModelDeployment) -> tuple[str, ...]:
    """The planner's flags, then the user's in the order of their names."""
    spec = deployment.spec
    args = [f"--tensor-parallel-size={spec.parallelism.tensor}"]
    if spec.model.max_context_tokens is not None:
        args.append(f"--max-model-len={spec.model.max_context_tokens}")
    for flag, value in sorted(spec.engine.args.items()):
        args.append(f"--{flag}" if value in ("", BARE) else f"--{flag}={value}")
    return tuple(args)


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
