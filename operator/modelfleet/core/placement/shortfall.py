"""What is missing where a group finds no room, exactly: what the sentence says is enough would be enough. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from modelfleet.core.placement.fit import Room, barred, labels_missing, lack, requests_text
from modelfleet.core.placement.groups import by_domain, usable
from modelfleet.core.placement.scorers import short
from modelfleet.core.placement.want import GroupWant, Shortfall

_SHOWN = 3
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Class:
    """The rooms of the wanted kind: `fitting` have room for a member, `others` have not or are barred."""

    fitting: Sequence[Room]
    others: Sequence[Room]


def shortfall(want: GroupWant, found: Class) -> Shortfall:
    """Why the group has no room."""
    far = want.topology[-1] if want.topology and want.members > 1 else None
    there = _by_far_domain(want, found, far) if far else _anywhere(want, found)
    sentence = f"{_needs(want, far)}; {there}{_left_out(want, found)}"
    return Shortfall(key=want.key, sentence=sentence, would_do=would_do(want, found.fitting))


def would_do(want: GroupWant, fitting: Sequence[Room]) -> tuple[Labels, ...]:
    """The fewest nodes, by the labels they need, that would be enough beside the fitting ones."""
    far = want.topology[-1] if want.topology and want.members > 1 else None
    if far is None:
        return ({},) * (want.members - len(fitting))
    domains = [(name, rooms) for (name, apart), rooms in by_domain(fitting, far).items() if not apart]
    offers = [_additions(want, far, name, rooms) for name, rooms in sorted(domains, key=lambda each: each[0])]
    return min([*offers, _additions(want, far, "", ())], key=len)


def _additions(want: GroupWant, far: str, name: str, rooms: Sequence[Room]) -> tuple[Labels, ...]:
    """What one far domain lacks. Parts of tensor parallelism that have begun are filled first."""
    missing = (want.members - usable(rooms, want)) // want.span
    if want.span == 1:
        return ({far: name},) * missing
    near = want.topology[0]
    begun = [
        (want.span - len(inside) % want.span, {far: name, near: part})
        for (part, apart), inside in sorted(by_domain(rooms, near).items())
        if not apart and len(inside) % want.span
    ]
    added: list[Labels] = []
    for count, labels in sorted(begun, key=lambda each: each[0])[:missing]:
        added += [labels] * count
    return (*added, *({far: name, near: ""},) * (want.span * max(0, missing - len(begun))))


def _needs(want: GroupWant, far: str | None) -> str:
    each = f"{want.accelerators} free {want.class_name or want.resource}"
    nodes = f"{want.members} nodes × {each}" if want.members > 1 else f"1 node × {each}"
    where = f" in one {short(far)}" if far else ""
    if want.span > 1:
        where += f", each {want.span} of them in one {short(want.topology[0])}"
    return f"needs {nodes}{where}"


def _anywhere(want: GroupWant, found: Class) -> str:
    if not found.fitting and not found.others:
        return "no node carries the labels of the class and of spec.placement.nodeSelector"
    best = _most(want, found.others)
    if want.members > 1:
        return f"{_count(len(found.fitting))} that" + (f", at best {best} free on another" if best else "")
    return f"the best of {_nodes(len(found.others))} has {best} free"


def _by_far_domain(want: GroupWant, found: Class, far: str) -> str:
    if not found.fitting and not found.others:
        return "no node carries the labels of the class and of spec.placement.nodeSelector"
    fitting, others = by_domain(found.fitting, far), by_domain(found.others, far)
    named = sorted({name for name, apart in (*fitting, *others) if not apart})
    counts = {name: (len(fitting.get((name, ""), ())), _most(want, others.get((name, ""), ()))) for name in named}
    ranked = sorted(named, key=lambda name: (-counts[name][0], -counts[name][1], name))
    said = [f"{short(far)} {name} {_domain_has(*counts[name])}" for name in ranked[:_SHOWN]]
    if len(ranked) > _SHOWN:
        said.append(f"{len(ranked) - _SHOWN} more have no more")
    unlabelled = labels_missing((room.node for room in (*found.fitting, *found.others)), far)
    if unlabelled:
        said.append(f"{_nodes(unlabelled)} without the label {far}")
    return "; ".join(said)


def _domain_has(fitting: int, best: int) -> str:
    if fitting:
        return f"has {fitting}" + (f" and 1 with {best} free" if best else "")
    return f"has at best 1 with {best} free"


def _most(want: GroupWant, others: Iterable[Room]) -> int:
    """The most free accelerators on one node that takes pods and has too little room."""
    free = (room.free.get(want.resource, 0) for room in others if barred(room.node, want) is None)
    return max(max(free, default=0), 0)


def _left_out(want: GroupWant, found: Class) -> str:
    """Nodes that look free and are not counted, and why."""
    why = Counter[str]()
    for room in found.others:
        bar = barred(room.node, want)
        if bar is not None:
            why[str(bar)] += 1
        elif room.free.get(want.resource, 0) >= want.accelerators:
            name = lack(room, want)
            lacking = "domains of the fabric that are free" if name == want.resource else _text(want, str(name))
            why[f"short of {lacking}"] += 1
    if not why:
        return ""
    return "; not counted: " + ", ".join(f"{count} {reason}" for reason, count in sorted(why.items()))


def _text(want: GroupWant, name: str) -> str:
    return requests_text(want.requests, name)


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _count(count: int) -> str:
    return f"{count} {'has' if count == 1 else 'have'}"
