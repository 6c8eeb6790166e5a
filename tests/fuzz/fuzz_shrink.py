"""Makes a world that fails smaller, for as long as it fails in the same way."""

import copy
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fuzz_mutations import Path, at, paths
from fuzz_worlds import Case

Fails = Callable[[Case], None]
"""Raises if the world fails."""


def signature(error: Exception) -> str:
    """In which way something failed: the kind of error, and where it came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/modelfleet/" in frame.filename]
    where = f"{frames[-1].name}" if frames else ""
    what = str(error).split(" ")[:3] if isinstance(error, AssertionError) else ()
    return " ".join([type(error).__name__, where, *what])


def failure(fails: Fails, case: Case) -> str:
    """The signature of a world's failure; empty if it does not fail."""
    try:
        fails(copy.deepcopy(case))
    except Exception as error:
        return signature(error)
    return ""


def shrink(case: Case, fails: Fails, seconds: float) -> Case:
    """The smallest world found in that time that still fails as `case` does."""
    wanted, end = failure(fails, case), time.monotonic() + seconds
    if not wanted:
        return case  # it does not fail again: something outside of the world was the cause
    smaller = True
    while smaller and time.monotonic() < end:
        smaller = False
        for candidate in _candidates(case):
            if time.monotonic() > end:
                break
            if failure(fails, candidate) == wanted:
                case, smaller = candidate, True
                break
    return case


def _candidates(case: Case) -> Iterator[Case]:
    """Worlds with a little less in them, the largest cuts first."""
    if case.skew_s or case.refused or case.terminating:
        yield replace(case, skew_s=0.0, refused=[], terminating=False)
    for index in range(len(case.objects) - 1, 0, -1):
        yield replace(case, objects=case.objects[:index] + case.objects[index + 1 :])
    for index, item in enumerate(case.objects):
        for path in sorted(paths(item), key=len):
            if path and path[0] not in ("kind", "apiVersion") and not _identity(path):
                yield replace(case, objects=[*case.objects[:index], _without(item, path), *case.objects[index + 1 :]])


def _identity(path: Path) -> bool:
    return path == ("metadata",) or (path[0] == "metadata" and path[1] in ("name", "namespace", "uid", "labels"))


def _without(item: Any, path: Path) -> Any:
    less = copy.deepcopy(item)
    del at(less, path[:-1])[path[-1]]
    return less
