"""What the user wants, as far as it can be known: the parsed spec, its classes, the plan, the replicas. Pure.

Where no listed class states its performance, the user's pins are the plan and nothing is predicted. Else the planner
chooses, once for each revision: a revision that is pinned is taken as it is, and nothing is read or computed for it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modelfleet.api import names
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.parse import parse_class, parse_deployment
from modelfleet.api.reasons import Reason
from modelfleet.api.sources import Scheme
from modelfleet.core import raw
from modelfleet.core.adoption import adopt, adopted, entry_of, standing_beside
from modelfleet.core.asking import Ask, AskError, question
from modelfleet.core.children import Children, observe, owner_of
from modelfleet.core.described import ConfigError, inspected, stated
from modelfleet.core.effects import Effect
from modelfleet.core.inputs import REVISION_DIGITS, canonical_tolerations, digest, plan_inputs, planner_inputs
from modelfleet.core.inspection import Inspection, decide_inspection, decide_rereading, known_report, let_go
from modelfleet.core.intent_words import conflict_words, faults_words, not_found_words, pinned_words
from modelfleet.core.kept import entry, keep, state_of
from modelfleet.core.layout.choose import answer
from modelfleet.core.model.facts import ModelFacts
from modelfleet.core.placement.project import pod_entry
from modelfleet.core.plan import Plan
from modelfleet.core.planner import (
    above_bound,
    infeasible,
    make_others,
    make_plan,
    not_allowed,
    pinned_layout,
)
from modelfleet.core.planning import Planning, Setting, decide_plan
from modelfleet.core.render.job import Errand
from modelfleet.core.replicas import ReplicasDecision, decide_replicas
from modelfleet.core.revisions import Revision
from modelfleet.core.scaling.zero_terms import may_not_return
from modelfleet.core.snapshot import Inventory, Settings, World
from modelfleet.core.verdict import Verdict, no, unknown, yes
from modelfleet.core.weights import Chosen, is_unpinned, refused_folder, revisions, subject, weights_of

_NOT_LOOKED = unknown(Reason.NOT_EVALUATED, "no layout is looked for while the spec is not accepted")


@dataclass(frozen=True)
class Wish:
    """A valid, feasible wish. `digest` is the whole hash of its revision's inputs; `plan` is the pinned one of that
    revision, with the figures for this wish, else the one that this operator pins today."""

    deployment: ModelDeployment
    digest: str
    plan: Plan
    replicas: ReplicasDecision


@dataclass(frozen=True, kw_only=True)
class Intent:
    """The wish, or why there is none: whether the spec and its class are valid, and whether a layout exists.

    `shown` is a plan that exists and is not carried out; `facts` what is known of the model. `effects` and
    `wake_after_s` are of reading the model.
    """

    accepted: Verdict
    planned: Verdict
    wish: Wish | None = None
    deployment: ModelDeployment | None = None
    classes: Mapping[str, AcceleratorClass] = field(default_factory=dict)
    shown: Plan | None = None
    facts: ModelFacts | None = None
    effects: tuple[Effect, ...] = ()
    wake_after_s: float | None = None


@dataclass(frozen=True)
class _Accepted:
    """A valid spec with its classes in the order of the list."""

    deployment: ModelDeployment
    classes: tuple[AcceleratorClass, ...]

    @property
    def predictable(self) -> tuple[AcceleratorClass, ...]:
        """Those that state their performance."""
        return tuple(each for each in self.classes if each.spec.is_predictable)

    @property
    def digest(self) -> str:
        """The hash of the revision's inputs."""
        if self.predictable:
            return digest(planner_inputs(self.deployment, self.classes))
        return digest(plan_inputs(self.deployment, self.classes[0], self.classes[1:]))


def plans_anew(world: World) -> bool:
    """Whether a plan is to be predicted that no revision pins, and what the model is made of is known: only then
    `world.inventory` matters."""
    accepted = _accept(world)
    if not isinstance(accepted, _Accepted) or not accepted.predictable:
        return False
    state = next(
        (item for item in world.config_maps if raw.name(item) == names.state(raw.name(world.deployment))), None
    )
    adoption = entry(state, names.ADOPTION_KEY)
    stands = raw.text(adoption, "revision") if raw.text(adoption, "inputs") == accepted.digest else accepted.digest
    if any(raw.text(item, "data", "inputs") in (stands, accepted.digest) for item in world.revisions):
        return False
    return _all_refuse(accepted) is None and _facts(world, observe(world, owner_of(world)), accepted).facts is not None


def decide_intent(world: World, children: Children, known: Mapping[str, Revision]) -> Intent:
    """Reads the spec and the classes it names. Without a wish what runs is left as it is."""
    accepted = _accept(world)
    if isinstance(accepted, Verdict):
        return Intent(accepted=accepted, planned=_NOT_LOOKED)
    if accepted.predictable:
        return _predicted(world, children, known, accepted)
    return _unpredicted(world, children, known, accepted)


def _accept(world: World) -> _Accepted | Verdict:
    deployment = parse_deployment(world.deployment)
    if not isinstance(deployment, ModelDeployment):
        return no(Reason.SPEC_INVALID, faults_words(deployment))
    folder = refused_folder(deployment.spec.model, world.settings)
    if folder:
        return no(Reason.SPEC_INVALID, folder)
    classes = []
    for index, name in enumerate(map(str, deployment.spec.accelerators.classes)):
        if name not in world.classes:
            return no(Reason.CLASS_NOT_FOUND, not_found_words(index, name, world.classes))
        parsed = parse_class(world.classes[name])
        if not isinstance(parsed, AcceleratorClass):
            return no(Reason.CLASS_INVALID, f"AcceleratorClass {name}: {faults_words(parsed)}")
        conflict = conflict_words(deployment, parsed)
        if conflict:
            return no(Reason.SPEC_INVALID, conflict)
        classes.append(parsed)
    lost = may_not_return(deployment, classes)
    return no(Reason.CAPACITY_MAY_NOT_RETURN, lost) if lost else _Accepted(deployment, tuple(classes))


def _valid(accepted: _Accepted) -> Verdict:
    names = [each.metadata.name for each in accepted.classes]
    there = f"AcceleratorClass {names[0]} exists" if len(names) == 1 else f"{', '.join(names)} exist"
    return yes(Reason.VALID, f"the spec is valid and {there}")


def _unpredicted(world: World, children: Children, known: Mapping[str, Revision], accepted: _Accepted) -> Intent:
    deployment, first = accepted.deployment, accepted.classes[0]
    base = _base(accepted, tuple(let_go(children)))
    impossible = infeasible(deployment, first, _others(world, first.metadata.name))
    impossible = impossible or above_bound(deployment.spec, pinned_layout(deployment.spec).accelerators)
    if impossible is not None:
        return replace(base, planned=impossible)
    pinned = _standing(children, known, accepted.digest) or _of_one_class(known, accepted)
    if pinned is not None:
        wish = _wish(world, accepted, pinned[1], pinned[0])
        return replace(base, planned=pinned_words(wish.plan, wish.digest, first), wish=wish)
    found = _pins(world, children, accepted)
    kept = dict(found.kept)
    if found.revisions is None:
        effects = (*keep(children, kept), *found.effects)
        return replace(_base(accepted, effects), wake_after_s=found.wake_after_s, planned=found.verdict)
    pins, size = found.revisions, found.checkpoint_bytes
    plan = make_plan(deployment, first, world.settings, pins, size)
    others = make_others(deployment, accepted.classes, world.settings, pins, size)
    wish = _adopting(world, accepted, known, plan.model_copy(update=others), kept)
    effects = (*keep(children, kept), *found.effects)
    base = replace(_base(accepted, effects), wake_after_s=found.wake_after_s)
    return replace(base, planned=pinned_words(wish.plan, wish.digest, first), wish=wish)


def _of_one_class(known: Mapping[str, Revision], accepted: _Accepted) -> tuple[str, Plan] | None:
    """The plan that a version which used the first class alone has pinned for this list of classes: it stays."""
    of = digest(plan_inputs(accepted.deployment, accepted.classes[0]))
    plan, stored = _pinned(known, of), known.get(of[:REVISION_DIGITS])
    listed = [str(name) for name in accepted.deployment.spec.accelerators.classes]
    made_for = raw.at(stored.spec, "accelerators", "classes") if stored is not None else None
    return (of, plan) if plan is not None and made_for in (None, listed) else None


def _adopting(
    world: World, accepted: _Accepted, known: Mapping[str, Revision], fresh: Plan, kept: dict[str, Mapping[str, Any]]
) -> Wish:
    """The wish for a plan that was just made; where the newest revision gives the same pods, that one stands for it,
    and what NAME-state is to hold of that comes to `kept`."""
    own_image = accepted.deployment.spec.engine.image is not None
    stands = adopt(known, fresh, own_image)
    if stands is None:
        return _wish(world, accepted, fresh, accepted.digest)
    fresh = fresh.model_copy(update={"others": standing_beside(stands, fresh, own_image)})
    kept[names.ADOPTION_KEY] = entry_of(accepted.digest, stands, fresh)
    told = {"planned": fresh.planned, "others": fresh.others, "unused": fresh.unused}
    return _wish(world, accepted, stands.plan.model_copy(update=told), stands.digest)


def _predicted(world: World, children: Children, known: Mapping[str, Revision], accepted: _Accepted) -> Intent:
    pinned = _standing(children, known, accepted.digest)
    if pinned is not None:
        base = replace(_base(accepted, tuple(let_go(children))), facts=_known_facts(accepted.deployment, children))
        stands_for, plan = pinned
        over = above_bound(accepted.deployment.spec, plan.accelerators)
        if over is not None:
            return replace(base, planned=over)
        wish = _wish(world, accepted, plan, stands_for)
        return replace(base, planned=pinned_words(wish.plan, wish.digest), wish=wish)
    refused = _all_refuse(accepted)
    if refused is not None:
        return replace(_base(accepted), planned=refused)
    found = _facts(world, children, accepted)
    base = replace(_base(accepted), wake_after_s=found.wake_after_s, facts=found.facts)
    kept = dict(found.kept)
    if found.facts is None:
        return replace(base, planned=found.verdict, effects=(*keep(children, kept), *found.effects))
    planning = _plan(world, accepted, found.facts, found.revisions or {})
    if planning.plan is None:
        effects = (*keep(children, kept), *found.effects)
        return replace(base, planned=planning.verdict, shown=planning.shown, effects=effects)
    wish = _adopting(world, accepted, known, planning.plan, kept)
    return replace(
        base, planned=pinned_words(wish.plan, wish.digest), wish=wish, effects=(*keep(children, kept), *found.effects)
    )


def _standing(children: Children, known: Mapping[str, Revision], of: str) -> tuple[str, Plan] | None:
    """The whole hash of the revision that stands for the inputs `of`, and its plan with their figures."""
    own = _pinned(known, of)
    if own is not None:
        return of, own
    found = adopted(entry(state_of(children), names.ADOPTION_KEY), of, known)
    return (found[0].digest, found[1]) if found is not None else None


def _base(accepted: _Accepted, effects: tuple[Effect, ...] = ()) -> Intent:
    return Intent(
        accepted=_valid(accepted),
        planned=_NOT_LOOKED,
        deployment=accepted.deployment,
        classes={each.metadata.name: each for each in accepted.classes},
        effects=effects,
    )


def _pinned(known: Mapping[str, Revision], of: str) -> Plan | None:
    stored = known.get(of[:REVISION_DIGITS])
    return stored.plan if stored is not None and stored.digest == of else None


def _wish(world: World, accepted: _Accepted, plan: Plan, of: str) -> Wish:
    replicas = decide_replicas(accepted.deployment.spec.scaling, raw.mapping(world.deployment, "metadata"), plan)
    return Wish(accepted.deployment, of, plan, replicas)


def _all_refuse(accepted: _Accepted) -> Verdict | None:
    """The first class's refusal of the engine's version, where every class refuses it."""
    refusals = [not_allowed(accepted.deployment.spec, each) for each in accepted.predictable]
    return refusals[0] if all(refusals) else None


@dataclass(frozen=True)
class _Found:
    """What the model is made of, and the revisions that fetched sources are pinned to; without them `verdict` says
    why. `checkpoint_bytes` may be known where nothing else of the model is read."""

    facts: ModelFacts | None
    revisions: Mapping[str, str] | None = None
    verdict: Verdict = _NOT_LOOKED
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    effects: tuple[Effect, ...] = ()
    wake_after_s: float | None = None
    checkpoint_bytes: int | None = None


def _facts(world: World, children: Children, accepted: _Accepted) -> _Found:
    """What the model is made of, or the step towards it."""
    model = accepted.deployment.spec.model
    if model.facts is not None:
        pins = _pins(world, children, accepted)
        try:
            facts = stated(model.facts, accepted.deployment.metadata.name)
        except ConfigError as error:
            return _Found(None, verdict=no(Reason.CONTRADICTION, f"spec.model.facts: {error}"), effects=pins.effects)
        return replace(pins, facts=facts if pins.revisions is not None else None)
    errand = _errand(accepted, world.settings)
    step = decide_inspection(world, children, errand)
    if step.report is None:
        return _not_yet(step)
    try:
        facts = inspected(step.report, model.source.canonical)
        return _Found(facts, revisions(model, step.report), kept=step.kept, effects=step.effects)
    except (ConfigError, ValueError) as error:
        known = known_report(children, errand.source) is not None
        again = decide_rereading(world, children, errand) if known else step
        reason = Reason.UNKNOWN_ARCHITECTURE if isinstance(error, ConfigError) else Reason.INSPECT_FAILED
        return _not_yet(replace(again, verdict=no(reason, str(error))))


def _pins(world: World, children: Children, accepted: _Accepted) -> _Found:
    """What fetched sources are pinned to, where nothing else has to be read."""
    model = accepted.deployment.spec.model
    if not is_unpinned(model):
        return _Found(None, revisions(model, {}), effects=tuple(let_go(children)))
    errand = _errand(accepted, world.settings)
    step = decide_inspection(world, children, errand)
    if step.report is None:
        return _not_yet(step)
    try:
        size = raw.integer(step.report, "checkpointBytes")
        pins = revisions(model, step.report)
        return _Found(None, pins, kept=step.kept, effects=step.effects, checkpoint_bytes=size)
    except ValueError as error:
        known = known_report(children, errand.source) is not None
        again = decide_rereading(world, children, errand) if known else step
        return _not_yet(replace(again, verdict=no(Reason.INSPECT_FAILED, str(error))))


def _not_yet(step: Inspection) -> _Found:
    verdict = step.verdict or _NOT_LOOKED
    return _Found(None, None, verdict, step.kept, step.effects, step.wake_after_s)


def _known_facts(deployment: ModelDeployment, children: Children) -> ModelFacts | None:
    """The facts for the report only; None where they are not at hand."""
    model = deployment.spec.model
    try:
        if model.facts is not None:
            return stated(model.facts, deployment.metadata.name)
        report = known_report(children, subject(model))
        return inspected(report, model.source.canonical) if report else None
    except ConfigError:
        return None


def _errand(accepted: _Accepted, settings: Settings) -> Errand:
    spec, first = accepted.deployment.spec, (accepted.predictable or accepted.classes)[0]
    model = spec.model
    folder = weights_of(model, Chosen(model.source), first, settings) if model.source.scheme is Scheme.FILE else None
    labels = first.spec.node_selector
    allowed = {"--pickled-weights": model.pickled_weights.value, "--remote-code": model.remote_code.value}
    taints = (*spec.placement.tolerations, *(each for kind in accepted.classes for each in kind.spec.tolerations))
    return Errand(
        source=subject(model),
        sources=tuple(source.canonical for source in model.sources) if model.is_fetched else (),
        endpoint=model.endpoint.canonical if model.endpoint else "",
        secret=str(model.credentials_secret_ref.name) if model.credentials_secret_ref else "",
        options=tuple(f"{flag}={value}" for flag, value in allowed.items() if value == "Allow"),
        folder=folder,
        claim=model.source.claim,
        path=model.source.path,
        image=str(spec.engine.image or settings.worker_image),
        image_pull_policy=settings.image_pull_policy,
        beside={str(key): str(value) for key, value in labels.items()},
        node_selector={str(k): str(v) for k, v in (spec.placement.node_selector | (labels if folder else {})).items()},
        tolerations=tuple(canonical_tolerations(taints)),
        priority_class_name=str(spec.placement.priority_class_name or ""),
        image_pull_secrets=tuple(sorted({str(secret.name) for secret in spec.image_pull_secrets})),
    )


def _plan(world: World, accepted: _Accepted, facts: ModelFacts, pins: Mapping[str, str]) -> Planning:
    if world.inventory is not None and world.inventory.nodes is None:
        return Planning(verdict=unknown(Reason.NODES_NOT_READ, f"{world.unread}, so no layout is chosen"))
    try:
        asked = question(Ask(accepted.deployment, accepted.predictable, facts), _inventory(world))
    except AskError as error:
        return Planning(verdict=no(Reason.CONTRADICTION, str(error)))
    classes = {each.metadata.name: each for each in accepted.classes}
    return decide_plan(asked, answer(asked), Setting(accepted.deployment, classes, world.settings, pins))


def _inventory(world: World) -> Inventory | None:
    """The nodes, with what pods of others leave free of them: what our own hold is ours to use."""
    if world.inventory is None or world.inventory.nodes is None:
        return world.inventory
    own: dict[str, Counter[str]] = {}
    for one in filter(None, map(pod_entry, world.pods)):
        own.setdefault(one.node, Counter()).update(one.requests)
    nodes = (
        replace(node, free=Counter(node.free) + own[node.name]) if node.name in own else node
        for node in world.inventory.nodes
    )
    return replace(world.inventory, nodes=tuple(nodes))


def _others(world: World, name: str) -> Iterator[AcceleratorClass]:
    """The other classes, read only as far as somebody asks: a catalogue has many."""
    for other, item in sorted(world.classes.items()):
        parsed: Any = parse_class(item) if other != name else None
        if isinstance(parsed, AcceleratorClass):
            yield parsed
