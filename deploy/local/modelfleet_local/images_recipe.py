"""What our images are made of, read from deploy/images/images.toml and pyproject.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet_local.paths import REPOSITORY

REGISTRY = "localhost/modelfleet"  # a registry that nobody serves: a missing image fails, a stranger's is never pulled


@dataclass(frozen=True)
class DebianFiles:
    """Some files of some Debian packages, without what those packages depend on. `links` maps a path to its target."""

    packages: tuple[str, ...]
    files: tuple[str, ...]
    links: Mapping[str, str]


@dataclass(frozen=True)
class BasePackages:
    """The Debian packages of the base layer: `packages` and all they depend on, except `without`; then `links`."""

    packages: tuple[str, ...]
    without: tuple[str, ...]
    links: Mapping[str, str]


@dataclass(frozen=True)
class ImageRecipe:
    """One image. `commands` are the console scripts on its PATH; `extras` choose the Python packages from uv.lock;
    `env` is added to that of all images."""

    name: str
    title: str
    extras: tuple[str, ...]
    commands: tuple[str, ...]
    entrypoint: tuple[str, ...]
    ports: tuple[int, ...]
    env: Mapping[str, str]
    debian: DebianFiles | None


@dataclass(frozen=True)
class Recipe:
    """Everything in images.toml, with the version and the console scripts of pyproject.toml."""

    user: str
    working_directory: str
    environment: str
    application: str
    env: Mapping[str, str]
    base: BasePackages
    images: tuple[ImageRecipe, ...]
    version: str
    scripts: Mapping[str, str]  # console script: "module:function"


def read_recipe(repository: Path = REPOSITORY) -> Recipe:
    """The recipe of the checkout at `repository`.

    Raises KeyError or tomllib.TOMLDecodeError if one of the two files is not of the shape that this module expects.
    """
    data = tomllib.loads((repository / "deploy/images/images.toml").read_text())
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    common, base = data["common"], data["base"]
    return Recipe(
        user=common["user"],
        working_directory=common["working_directory"],
        environment=common["environment"],
        application=common["application"],
        env=common["env"],
        base=BasePackages(tuple(base["packages"]), tuple(base["without"]), base["links"]),
        images=tuple(_image(name, data[name]) for name in ("operator", "worker")),
        version=project["version"],
        scripts=project["scripts"],
    )


def _image(name: str, data: Mapping[str, Any]) -> ImageRecipe:
    debian = data.get("debian")
    return ImageRecipe(
        name=name,
        title=data["title"],
        extras=tuple(data["extras"]),
        commands=tuple(data["commands"]),
        entrypoint=tuple(data["entrypoint"]),
        ports=tuple(data["ports"]),
        env=data.get("env", {}),
        debian=debian and DebianFiles(tuple(debian["packages"]), tuple(debian["files"]), debian["links"]),
    )
