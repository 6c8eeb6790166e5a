"""How a model goes to zero and comes back in the cluster: what is decided from, and what is done for it. Pure.

The decision itself is core/scaling/zero.py. The slice to the activators comes before replicas leave and goes after they
serve, so that something always answers behind the Service.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from modelfleet.api import names
from modelfleet.api.modeldeployment import Scaling, ScalingMode
from modelfleet.api.reasons import ScalingReason
from modelfleet.api.zero_status import ZeroState
from modelfleet.core import raw
from modelfleet.core.activator import DEAD_S, waiting_in
from modelfleet.core.children import Children
from modelfleet.core.cold_start import Seen, Starts, read_starts, starts_entry, with_new
from modelfleet.core.drift import delete, put_back
from modelfleet.core.effects import Create, Effect, Forget
from modelfleet.core.groups import Replica
from modelfleet.core.intent import Intent, Wish
from modelfleet.core.kept import entry, state_of
from modelfleet.core.plan import Plan
from modelfleet.core.render.activator_slice import activator_slice
from modelfleet.core.replicas import ReplicasDecision
from modelfleet.core.scaling.idle import counts_of
from modelfleet.core.scaling.schedule import in_force, next_change_s
from modelfleet.core.scaling.zero import Moment, Slice, Zero, decide_zero
from modelfleet.core.scaling.zero_kept import FIRST_PORT, PORTS, Kept, kept_entry, read_kept
from modelfleet.core.snapshot import World
from modelfleet.core.start_deadline import fetch_limit_s

IMAGES_S = 900.0
"""What a wake may take beside the engine's own start: nodes, images, volumes."""

AHEAD_S = 300.0
"""A schedule keeps replicas from this long before it begins."""


@dataclass(frozen=True, kw_only=True)
class Handshake:
    """`zero` is None where the deployment has nothing to do with zero; `starts` are those that were measured then.
    `kept`: what NAME-state is to hold, by key."""

    zero: Zero | None = None
    starts: Starts | None = None
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    effects: tuple[Effect, ...] = ()
    wake_after_s: float | None = None


def decide_handshake(
    world: World, children: Children, fleet: tuple[Replica, ...], intent: Intent, plans: Mapping[str, Plan]
) -> tuple[Intent, Handshake]:
    """The step, and the wish with the number of replicas that comes of it. Without a wish everything stays."""
    stored, wish = entry(state_of(children), names.ZERO_KEY), intent.wish
    kept = read_kept(stored).not_after(world.now)
    if wish is None:
        known = bool(raw.text(stored, "state"))
        return intent, Handshake(zero=Zero(kept=kept, replicas=0, slice=Slice.KEEP) if known else None)
    starts = _starts(world, children, fleet, plans)
    scaling = wish.deployment.spec.scaling
    if scaling.to_zero is None and not stored:
        return intent, Handshake()
    moment = _moment(world, fleet, wish, kept)
    zero = decide_zero(moment)
    done = scaling.to_zero is None and zero.state is ZeroState.SERVING and zero.slice is Slice.DROP
    looks = world.samples is not None or world.activator is not None  # else nothing new would be seen
    times_s = (zero.wake_after_s if looks else None, next_change_s(scaling.schedules, world.now, AHEAD_S))
    return replace(intent, wish=replace(wish, replicas=_number(wish.replicas, zero))), Handshake(
        zero=None if done else zero,
        starts=None if done else starts,
        kept={names.ZERO_KEY: {}, names.STARTS_KEY: {}}
        if done
        else {names.ZERO_KEY: kept_entry(zero.kept), names.STARTS_KEY: starts_entry(starts)},
        effects=(*_keep_slice(children, zero), *_forget_the_dead(world, moment)),
        wake_after_s=min((time_s for time_s in times_s if time_s is not None), default=None),
    )


def is_at_zero(children: Children) -> bool:
    """Whether no replica runs by our own choice, or the last ones leave for that, as far as the last step left it."""
    return read_kept(entry(state_of(children), names.ZERO_KEY)).state in (ZeroState.AT_ZERO, ZeroState.LEAVING)


def is_from_zero(children: Children) -> bool:
    """Whether no replica runs by our own choice, or the first ones after that do not serve yet: what is not there is
    not lost."""
    return is_at_zero(children) or read_kept(entry(state_of(children), names.ZERO_KEY)).state is ZeroState.WAKING


def _starts(world: World, children: Children, fleet: tuple[Replica, ...], plans: Mapping[str, Plan]) -> Starts:
    known = read_starts(entry(state_of(children), names.STARTS_KEY))
    classes = {name: plan.class_name for name, plan in plans.items()}
    return with_new(known, fleet, Seen(pods=children.pods, classes=classes, samples=world.samples), world.now)


def _moment(world: World, fleet: tuple[Replica, ...], wish: Wish, kept: Kept) -> Moment:
    scaling = wish.deployment.spec.scaling
    terms, mode = scaling.to_zero, scaling.mode
    if terms is not None and kept.port is None:
        kept = replace(kept, port=world.activator_port)
    automatic = terms is not None and mode is ScalingMode.ACTIVE and kept.port is not None
    return Moment(
        kept=kept,
        after_s=terms.after.seconds if automatic and terms is not None else None,
        wanted=wish.replicas.replicas,
        most=_most(scaling, wish.plan),
        fleet=fleet,
        now=world.now,
        generation=raw.integer(world.deployment, "metadata", "generation"),
        by_hand=mode is ScalingMode.MANUAL and wish.replicas.replicas == 0,
        warm=in_force(scaling.schedules, world.now, AHEAD_S) is not None,
        carries=carries(wish.plan),
        counts=counts_of(world.samples, fleet),
        demand=waiting_in(world.deployment),
        demand_s=world.demand_s,
        answer=world.activator,
        deadline_s=wish.plan.limits.start_deadline_s + IMAGES_S,
        fetch_s=fetch_limit_s(wish.plan.limits.start_deadline_s),
        stands_s=world.settings.propagation_s,
    )


def carries(plan: Plan) -> float | None:
    """How many requests one replica answers at a time inside the promise; None where nothing tells.

    Predicted: the concurrency at the planned load, raised to the knee by Little's law (the same time in the system), at
    most what the engine batches. Else what the engine's arguments batch.
    """
    batched = _batched(plan)
    if plan.planned is None:
        return batched
    hosted, at_load = plan.planned.hosted, float(plan.planned.predicted.concurrency)
    load_rps = hosted.load_rps / max(1, plan.planned.replicas) if hosted.load_rps else None
    at_knee = at_load * hosted.knee_rps / load_rps if load_rps and hosted.knee_rps else at_load
    most = plan.planned.sequence_cap or batched
    found = max(1.0, at_load, at_knee)
    return min(found, float(most)) if most else found


def _batched(plan: Plan) -> float | None:
    flag = "--max-num-seqs="
    given = [each.removeprefix(flag) for each in plan.engine_args if each.startswith(flag)]
    return float(given[-1]) * plan.data if given and given[-1].isdecimal() and int(given[-1]) else None


def _most(scaling: Scaling, plan: Plan) -> int:
    bound = scaling.max_replicas
    if scaling.max_accelerators is not None:
        bound = min(bound, scaling.max_accelerators // max(1, plan.accelerators))
    return max(1, bound)


def _number(decision: ReplicasDecision, zero: Zero) -> ReplicasDecision:
    """The decision about the number, as far as going to zero changes it."""
    if zero.replicas == decision.replicas and not zero.why:
        return decision
    if zero.state is ZeroState.SERVING and not zero.why:
        return replace(
            decision, replicas=zero.replicas, detail=f"{decision.detail}; at least one runs until it is idle"
        )
    if decision.reason is ScalingReason.MANUAL and not zero.replicas:
        return replace(decision, replicas=0)
    woken = zero.state in (ZeroState.WAKING, ZeroState.SERVING)
    reason = ScalingReason.WOKEN if woken else ScalingReason.IDLE
    return replace(decision, replicas=zero.replicas, reason=reason, detail=zero.why, bound=None)


def _keep_slice(children: Children, zero: Zero) -> Iterator[Effect]:
    name = names.activator_slice(children.owner.name)
    stored, port = children.slices.get(name), zero.kept.port
    if zero.slice is Slice.DROP:
        if stored is not None and raw.at(stored, "metadata", "deletionTimestamp") is None:
            yield delete(stored, activator_slice(children.owner, port or 1))
    elif port is not None and (stored is not None or zero.slice is Slice.MAKE):
        manifest = activator_slice(children.owner, port, _family(children))
        if stored is not None:
            yield from put_back(stored, manifest)
        elif ("EndpointSlice", name) not in children.foreign:
            yield Create({**manifest, "endpoints": []})


def _forget_the_dead(world: World, moment: Moment) -> Iterator[Effect]:
    """Entries that only an activator which lives would have written anew: the list has room for a bounded number."""
    metadata = raw.mapping(world.deployment, "metadata")
    header = {key: metadata[key] for key in ("name", "namespace", "resourceVersion") if key in metadata}
    manifest = {"apiVersion": names.API_VERSION, "kind": names.DEPLOYMENT_KIND, "metadata": header, "status": {}}
    for each in moment.demand:
        if moment.demand_s.get(each.activator, 0.0) >= 2 * DEAD_S:
            yield Forget(each.activator, manifest)


def _family(children: Children) -> str:
    """The address family of the Service: its first."""
    service = children.services.get(names.child(children.owner.name))
    families = raw.at(service, "spec", "ipFamilies")
    return str(families[0]) if isinstance(families, list | tuple) and families else "IPv4"


def free_port(uid: str, taken: frozenset[int]) -> int | None:
    """The port of activators that a new model gets: its own by its uid, or the next that no other has; None: all are
    taken. The same for the same model, so that a write that was lost is made again."""
    first = int(sha256(uid.encode()).hexdigest(), 16) % PORTS
    ports = (FIRST_PORT + (first + step) % PORTS for step in range(PORTS))
    return next((port for port in ports if port not in taken), None)
