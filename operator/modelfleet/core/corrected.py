"""The user's wish with what was learned from deaths for lack of memory. Pure.

Around core.intent, which knows nothing of it: the same wish, a plan with some settings lowered, another revision.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.children import Children
from modelfleet.core.correction import Correction, Death, corrected, decide_correction, entry_of, learned, scope_of
from modelfleet.core.correction import sentence as step_sentence
from modelfleet.core.effects import Apply, Create, Effect
from modelfleet.core.inputs import REVISION_DIGITS, corrected_digest
from modelfleet.core.intent import Intent, Wish, decide_intent
from modelfleet.core.kept import entry, keep, state_of
from modelfleet.core.pods import PodView
from modelfleet.core.revisions import Revision
from modelfleet.core.snapshot import World


def decide_corrected(
    world: World, children: Children, known: Mapping[str, Revision], pods: Iterable[PodView]
) -> Intent:
    """The intent, with the corrections that hold for it and the one that a pod of it may give rise to now."""
    # A revision that was corrected is none that a changed promise may be served by: what it stands for is the one that
    # it was corrected from.
    plain = {name: each for name, each in known.items() if each.plan.memory is None}
    intent = decide_intent(world, children, plain)
    if intent.wish is None or intent.deployment is None:
        return intent
    first = next(iter(intent.classes.values()))
    kept = entry(state_of(children), names.MEMORY_KEY)
    before = learned(kept, known, scope_of(intent.deployment, first))
    standing = _carried_out(intent.wish, known, Correction(before))
    revision = standing.digest[:REVISION_DIGITS]
    death = Death(
        failures=[pod.failure for pod in pods if pod.revision == revision and pod.failure is not None],
        plan=standing.plan,
        users={str(flag): str(value) for flag, value in intent.deployment.spec.engine.args.items()},
    )
    found = decide_correction(before, death, world.now)
    wish = _carried_out(intent.wish, known, found)
    told = intent.planned
    effects = intent.effects
    if found.learned.steps:
        effects = _kept(children, effects, entry_of(kept, found.learned))
    return replace(
        intent,
        wish=wish,
        planned=replace(told, message=_told(intent.wish, wish, told.message, found)),
        effects=effects,
        wake_after_s=min((s for s in (intent.wake_after_s, found.wake_after_s) if s is not None), default=None),
    )


def _carried_out(wish: Wish, known: Mapping[str, Revision], what: Correction) -> Wish:
    of = corrected_digest(wish.digest, what.learned.flags)
    stored = known.get(of[:REVISION_DIGITS])
    if stored is not None and stored.digest == of:
        # As it was pinned, with the figures, the reasons and the other classes of today's promise.
        fresh = corrected(wish.plan, what.learned)
        told = {"planned": fresh.planned, "others": fresh.others, "unused": fresh.unused}
        return replace(wish, digest=of, plan=stored.plan.model_copy(update=told))
    return replace(wish, digest=of, plan=corrected(wish.plan, what.learned))


def _told(before: Wish, after: Wish, message: str, what: Correction) -> str:
    old, new = (each.digest[:REVISION_DIGITS] for each in (before, after))
    latest = {step.flag: step for step in what.learned.steps}
    said = [message.replace(f"revision {old}", f"revision {new}"), *map(step_sentence, latest.values())]
    return "; ".join([*said, *([what.note] if what.note else [])])


def _kept(children: Children, effects: tuple[Effect, ...], memory: Mapping[str, Any]) -> tuple[Effect, ...]:
    """Writes our key of NAME-state, into the write of another key where there is one: two would undo each other."""
    own = tuple(keep(children, {names.MEMORY_KEY: memory}))
    at = next((index for index, effect in enumerate(effects) if _is_state(children, effect)), None)
    if at is None or not own:
        return (*own, *effects)
    other, mine = effects[at], own[0]
    assert isinstance(other, Apply | Create)
    assert isinstance(mine, Apply | Create)
    key = {names.MEMORY_KEY: mine.manifest["data"][names.MEMORY_KEY]}
    both = replace(other, manifest={**other.manifest, "data": {**other.manifest["data"], **key}})
    return (*effects[:at], both, *effects[at + 1 :])


def _is_state(children: Children, effect: Effect) -> bool:
    if not isinstance(effect, Apply | Create):
        return False
    is_map = effect.manifest["kind"] == "ConfigMap"
    return is_map and raw.name(effect.manifest) == names.state(children.owner.name)
