"""The table of engine flags against the source of the installed vLLM, which is read and not imported."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelfleet.api.engine_flags import FORMS, KNOWN, ONLY, release
from modelfleet_local import engine
from modelfleet_local.paths import cache_dir
from modelfleet_worker.engine_version import installed_version

_CHOICES = {
    "chat-template-content-format": "ChatTemplateContentFormatOption",
    "dtype": "ModelDType",
    "linear-backend": "LinearBackend",
    "moe-backend": "MoEBackend",
    "performance-mode": "PerformanceMode",
    "scheduling-policy": "SchedulerPolicy",
}


@pytest.fixture(scope="module")
def home() -> Path:
    """The folder of the package vllm."""
    return next(engine.require_engine(cache_dir()).glob("lib/python3*/site-packages/vllm"))


@pytest.fixture(scope="module")
def version() -> str:
    found = installed_version(str(engine.require_engine(cache_dir()) / "bin" / "python"))
    assert found is not None
    return found


def test_the_installed_version_is_one_that_we_know(version: str) -> None:
    assert release(version) in KNOWN


def test_every_flag_that_we_know_is_one_of_the_engine_s_parser(home: Path, version: str) -> None:
    fields = set(_fields(home / "engine" / "arg_utils.py")) | set(_fields(home / "entrypoints/launchers/cli_args.py"))
    texts = (home / "engine" / "arg_utils.py").read_text() + (home / "entrypoints/launchers/cli_args.py").read_text()
    unknown = {
        flag
        for flag in KNOWN[release(version)]
        if flag.removeprefix("no-").replace("-", "_") not in fields and f'"--{flag}"' not in texts
    }
    assert unknown == set()


@pytest.mark.parametrize("flag", sorted(_CHOICES))
def test_the_choices_of_a_flag_are_the_engine_s(home: Path, version: str, flag: str) -> None:
    ours = set(FORMS[flag].pattern.split("|"))
    assert ONLY[release(version)].get(flag, ours) == set(_literal(home, _CHOICES[flag]))


def _fields(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _literal(home: Path, name: str) -> list[str]:
    """The words of `name = Literal[...]`, wherever vLLM defines it."""
    for path in [*sorted((home / "config").glob("*.py")), home / "renderers" / "chat_utils.py"]:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                target = node.targets[0]
                if isinstance(target, ast.Name) and target.id == name:
                    return [str(word) for word in ast.literal_eval(node.value.slice)]
    raise AssertionError(f"vLLM defines no {name} any more")
