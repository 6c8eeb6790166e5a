"""The layers hold, and each contract would notice a bad import."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("operator", "worker", "deploy/local")
CONTRACTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
IMPURE = next(contract["forbidden_modules"] for contract in CONTRACTS if contract["id"] == "core-is-pure")

PLANTED = (
    ("layers", "operator/modelfleet/api", "modelfleet.core.plan"),
    ("layers", "operator/modelfleet/core", "modelfleet.controller.cluster"),
    ("layers", "operator/modelfleet/controller", "modelfleet.cli.main"),
    ("layers", "operator/modelfleet/controller", "modelfleet.activator.line"),
    ("activator-knows-only-the-client", "operator/modelfleet/activator", "modelfleet.controller.shell"),
    ("core-is-pure", "operator/modelfleet/core", ", ".join(IMPURE)),
    ("core-is-pure", "operator/modelfleet/api", ", ".join(IMPURE)),
    ("one-way-to-the-api-server", "operator/modelfleet/cli", "kubernetes, kopf"),
    ("one-way-to-the-api-server", "worker/modelfleet_worker", "kubernetes, kopf"),
    ("worker-knows-only-the-api", "worker/modelfleet_worker", "modelfleet.core.plan"),
    ("worker-knows-only-the-api", "worker/modelfleet_worker", "modelfleet.controller.cluster"),
    ("product-does-not-know-the-local-cluster", "operator/modelfleet/controller", "modelfleet_local.cluster"),
    ("product-does-not-know-the-local-cluster", "operator/modelfleet/cli", "modelfleet_worker.main"),
)


def lint_imports(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(str(root / folder) for folder in FOLDERS)
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository's Python packages, to plant something in."""
    for folder in FOLDERS:
        source, target = REPOSITORY / folder, tmp_path / folder
        for path in source.rglob("*.py"):
            (target / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / path.relative_to(source))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_layers_hold() -> None:
    done = lint_imports(REPOSITORY)

    assert done.returncode == 0, done.stdout


def test_every_contract_has_a_bad_import_that_it_notices() -> None:
    assert {contract["id"] for contract in CONTRACTS} == {contract for contract, _, _ in PLANTED}


@pytest.mark.parametrize(
    ("contract", "folder", "modules"),
    [pytest.param(*row, id=f"{row[0]}, planted in {row[1]}: {row[2].partition(',')[0]}") for row in PLANTED],
)
def test_a_planted_import_is_noticed(copy: Path, contract: str, folder: str, modules: str) -> None:
    package = Path(folder).relative_to("operator" if folder.startswith("operator") else "worker")
    importer = ".".join((*package.parts, "planted"))
    (copy / folder / "planted.py").write_text("".join(f"import {each}\n" for each in modules.split(", ")))

    done = lint_imports(copy, "--contract", contract)

    assert done.returncode == 1
    for line, module in enumerate(modules.split(", "), 1):
        assert f"{importer} -> {module} (l.{line})" in done.stdout


def test_the_copy_is_as_sound_as_the_original(copy: Path) -> None:
    done = lint_imports(copy)

    assert done.returncode == 0, done.stdout
