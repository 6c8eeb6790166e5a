"""The Containerfiles, for those who have a container engine, and the builder of deploy/local make the same images."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from modelfleet_local.images import image_config
from modelfleet_local.images_python import PYTHON, SOURCES
from modelfleet_local.images_recipe import ImageRecipe, read_recipe
from modelfleet_local.paths import REPOSITORY, UV_VERSION

RECIPE = read_recipe()
IMAGES = {image.name: image for image in RECIPE.images}


class Containerfile:
    """The instructions of one Containerfile, by name; of the last stage those that make the image's configuration."""

    def __init__(self, path: Path) -> None:
        text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", path.read_text(), flags=re.M))
        for name, default in re.findall(r"^ARG (ENGINE_PYTHON)=(\S+)$", text, flags=re.M):
            text = text.replace("${" + name + "}", default)
        self.instructions = [(line.split()[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]
        last_stage = max(i for i, (name, _) in enumerate(self.instructions) if name == "FROM")
        self.final = self.instructions[last_stage:]

    def all(self, name: str) -> list[str]:
        return [" ".join(value.split()) for found, value in self.instructions if found == name]

    def value(self, name: str) -> str:
        *_, value = (value for found, value in self.final if found == name)  # the last one counts
        return value

    def pairs(self, name: str) -> Mapping[str, str]:
        return dict(part.split("=", 1) for part in shlex.split(self.value(name)))


@pytest.fixture(params=IMAGES)
def image(request: pytest.FixtureRequest) -> ImageRecipe:
    return IMAGES[request.param]


@pytest.fixture
def containerfile(image: ImageRecipe) -> Containerfile:
    return Containerfile(REPOSITORY / f"deploy/images/Containerfile.{image.name}")


def test_both_ways_give_the_same_configuration(image: ImageRecipe, containerfile: Containerfile) -> None:
    config = image_config(image, RECIPE)
    assert json.loads(containerfile.value("ENTRYPOINT")) == config["Entrypoint"]
    assert containerfile.value("USER") == config["User"]
    assert containerfile.value("WORKDIR") == config["WorkingDir"]
    assert containerfile.value("EXPOSE").split() == [port.removesuffix("/tcp") for port in config["ExposedPorts"]]
    path, *env = config["Env"]
    assert path.startswith("PATH=")
    assert sorted(f"{name}={value}" for name, value in containerfile.pairs("ENV").items()) == env
    assert containerfile.pairs("LABEL").items() <= config["Labels"].items()


def test_both_ways_take_the_same_packages_from_the_lock(image: ImageRecipe, containerfile: Containerfile) -> None:
    (export,) = (run for run in containerfile.all("RUN") if "uv export" in run)
    extras = re.findall(r"--extra=(\S+)", export)
    assert tuple(extras) == image.extras
    assert "--frozen --no-dev --no-emit-project" in export
    assert "--require-hashes --only-binary=:all:" in export
    assert f"UV_VERSION={UV_VERSION}" in containerfile.all("ARG")


def test_both_ways_build_our_package_from_the_same_files(containerfile: Containerfile) -> None:
    copied = [word for line in containerfile.all("COPY") if "--from" not in line for word in line.split()[:-1]]
    assert sorted(copied) == sorted({source.partition("/")[0] for source in (*SOURCES, "uv.lock")})


def test_both_ways_put_the_same_commands_on_the_path(image: ImageRecipe, containerfile: Containerfile) -> None:
    (link,) = (run for run in containerfile.all("RUN") if run.startswith("ln -s"))
    *linked, folder = link.split()[2:]
    assert folder == "/usr/local/bin/"
    assert linked == [f"{RECIPE.application}/bin/{command}" for command in image.commands]
    assert set(image.entrypoint) <= set(image.commands) <= set(RECIPE.scripts)


def test_the_operator_s_base_has_the_same_debian_packages() -> None:
    containerfile = Containerfile(REPOSITORY / "deploy/images/Containerfile.operator")
    installed = re.search(r"--no-install-recommends (.*?) &&", containerfile.all("RUN")[0])
    assert installed is not None
    assert tuple(installed.group(1).split()) == RECIPE.base.packages
    assert PYTHON.rpartition("/")[2] in RECIPE.base.packages


def test_every_base_can_be_pinned_by_digest(containerfile: Containerfile) -> None:
    bases = {base.split()[0] for base in containerfile.all("FROM")}
    arguments = {argument.partition("=")[0] for argument in containerfile.all("ARG")}
    outside = {base for base in bases if base.startswith("${")}
    assert len(outside) == 1
    assert {base.strip("${}") for base in outside} <= arguments
