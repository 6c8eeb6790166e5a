"""Which parts of a device a CEL expression can see, from its syntax tree. Pure.

Beside the driver only `device.attributes["DOMAIN"].NAME` and `device.capacity["DOMAIN"].NAME` are parts; an expression
that uses the device or a map of it in another way (`in`, a macro over a map, a name that is computed) can see all.
"""

import re
from collections.abc import Iterator
from typing import Any

from lark import Token, Tree

Parts = frozenset[tuple[str, str, str]]
"""Each: "attributes" or "capacity", the domain, the name."""

_Path = tuple[str | None, ...]
"""What follows `device`, member by member; None stands for an index that is not a plain string."""

_OPERATORS = ("conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary")
_WRAPPERS = frozenset({"expr", *_OPERATORS, "member", "primary", "paren_expr"})
"""Rules of the grammar (celpy/cel.lark) that say nothing where they have one child."""

_PLAIN = re.compile(r""""[^"\\]*"|'[^'\\]*'""")

_OF_EVERY_DEVICE = ("driver", "allowMultipleAllocations")
"""Members that are always there, or the same for all."""


def parts_read(tree: Tree[Token]) -> Parts | None:
    """The parts of `device` that the expression can see beside the driver; None: all of it."""
    parts = set()
    for path in _paths(tree):
        if None in path:
            return None
        match path:
            case (str(member), *_) if member in _OF_EVERY_DEVICE:
                pass
            case ("attributes" | "capacity" as kind, str(domain), str(name), *_):
                parts.add((kind, domain, name))
            case _:
                return None
    return frozenset(parts)


def _paths(tree: Any) -> Iterator[_Path]:
    """Each use of `device`, as long as it goes; the empty path where it is used as a whole."""
    tree = _unwrapped(tree)
    if not isinstance(tree, Tree):
        return
    path = _path(tree)
    if path is not None:
        yield path
        return
    if tree.data in ("dot_ident", "dot_ident_arg"):
        yield ()  # a name from the root, which may be the device's
    for child in tree.children:
        yield from _paths(child)


def _path(tree: Any) -> _Path | None:
    """The members that are read of `device`; None for anything else."""
    tree = _unwrapped(tree)
    if not isinstance(tree, Tree):
        return None
    if tree.data == "ident":
        return () if tree.children[0] == "device" else None
    if tree.data not in ("member_dot", "member_index"):
        return None
    path = _path(tree.children[0])
    if path is None:
        return None
    last = tree.children[1]
    return (*path, str(last) if tree.data == "member_dot" else _plain_string(last))


def _plain_string(tree: Any) -> str | None:
    """A literal without prefix, escapes and line ends."""
    tree = _unwrapped(tree)
    text = str(tree.children[0]) if isinstance(tree, Tree) and tree.data == "literal" else ""
    return text[1:-1] if _PLAIN.fullmatch(text) else None


def _unwrapped(tree: Any) -> Any:
    while isinstance(tree, Tree) and tree.data in _WRAPPERS and len(tree.children) == 1:
        tree = tree.children[0]
    return tree
