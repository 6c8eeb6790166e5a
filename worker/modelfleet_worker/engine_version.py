"""Which vLLM is installed for an engine's Python, read from its files: importing vLLM takes half a minute."""

import re
from collections.abc import Iterator
from pathlib import Path

from modelfleet.api.engine_flags import KNOWN, is_same, not_accepted, release
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.plan import Plan

_DISTRIBUTION = re.compile(r"vllm-([^-]+)\.dist-info")


def installed_version(python: str) -> str | None:
    """The version of the distribution `vllm` beside the interpreter `python`; None if none is found."""
    for folder in packages(Path(python)):
        for path in sorted(folder.glob("vllm-*.dist-info")):
            if found := _DISTRIBUTION.fullmatch(path.name):
                return found[1]
    return None


def check(plan: Plan, python: str) -> Failure | None:
    """Why this engine cannot carry out the plan by its version; None if it can, or if nothing is known of it."""
    version = installed_version(python)
    if version is None:
        return None
    if plan.engine_version and not is_same(plan.engine_version, version):
        message = f"The plan is for vLLM {plan.engine_version} and the engine is vLLM {version}."
        remedy = "Set spec.engine.version to what spec.engine.image holds, or use an image with that version."
        return Failure(reason=Reason.ENGINE_ARGUMENTS_REFUSED, message=message, remedy=remedy)
    if release(version) not in KNOWN:
        return None
    for argument in plan.args:
        flag, _, value = argument.removeprefix("--").partition("=")
        if said := not_accepted(version, flag, value):
            remedy = "Leave it out of spec.engine.args, or use an image with a version that has it."
            return Failure(reason=Reason.ENGINE_ARGUMENTS_REFUSED, message=f"{said}.", remedy=remedy)
    return None


def packages(python: Path) -> Iterator[Path]:
    """Where packages of an interpreter may be: of its environment, then of the one that it links to."""
    for program in dict.fromkeys((python, python.resolve())):
        prefix = program.parent.parent
        for root in (prefix, prefix / "local"):
            for kind in ("site-packages", "dist-packages"):
                yield from sorted(root.glob(f"lib/python3*/{kind}"))
