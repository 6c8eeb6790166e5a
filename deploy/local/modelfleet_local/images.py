"""Builds the operator's and the worker's images without a container engine, once for each content of their inputs.

The archives lie in the cache and load with `ctr -n k8s.io images import`. A pod that names an image's reference with
imagePullPolicy IfNotPresent then needs no registry.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from modelfleet_local import images_archive, images_debian, images_python, images_recipe
from modelfleet_local.images_archive import Layer
from modelfleet_local.images_recipe import ImageRecipe, Recipe
from modelfleet_local.locks import locked
from modelfleet_local.paths import REPOSITORY, cache_dir
from modelfleet_local.progress import Say, silent

_KEY_LENGTH = 12
_KEPT_ARCHIVES = 8  # an operator's and a worker's of the last four contents
_KEPT_LAYERS = 20


@dataclass(frozen=True)
class Image:
    """A built image: the name that pods give, and the archive that holds it."""

    reference: str
    archive: Path


@dataclass(frozen=True)
class _Part:
    """One layer to be: what it is called, what it is made from, and how."""

    title: str
    inputs: str
    make: Callable[[Path, Path], None]  # (root, scratch)

    @property
    def key(self) -> str:
        return _key(self.inputs, _builder_sources())


def build_images(*, cache: Path | None = None, repository: Path = REPOSITORY, say: Say = silent) -> Mapping[str, Image]:
    """The images `operator` and `worker` of the checkout at `repository`; what is missing is built under `cache`
    (by default the project's).

    Safe to call from several processes at once. `say` gets a line before each step that takes long.
    Raises LocalClusterError, whose text says what is missing and what helps.
    """
    folder = (cache or cache_dir()) / "images"
    (folder / "layers").mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock"), tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
        return _Builder(folder, Path(scratch), images_recipe.read_recipe(repository), repository, say).build()


@dataclass(frozen=True)
class _Builder:
    """What one call of build_images works with."""

    folder: Path
    scratch: Path
    recipe: Recipe
    repository: Path
    say: Say

    def build(self) -> Mapping[str, Image]:
        base, application = self._base(), self._application()
        images = {}
        for image in self.recipe.images:
            images[image.name] = self._image(image, [base, *self._own_parts(image), application])
        _keep_newest(self.folder / "layers", "*.tar", _KEPT_LAYERS)
        _keep_newest(self.folder, f"{'?' * _KEY_LENGTH}/*.tar", _KEPT_ARCHIVES)
        return images

    def _image(self, image: ImageRecipe, parts: list[_Part]) -> Image:
        config = image_config(image, self.recipe)
        key = _key(*(part.key for part in parts), json.dumps(config, sort_keys=True))
        reference = f"{images_recipe.REGISTRY}/{image.name}:{self.recipe.version}-{key}"
        archive = self.folder / key / f"{image.name}.tar"
        if not archive.exists():
            layers = [self._layer(part) for part in parts]
            self.say(f"image {reference}")
            draft = self.scratch / f"{image.name}.tar"
            images_archive.write_archive(reference, config, layers, draft)
            archive.parent.mkdir(exist_ok=True)
            os.replace(draft, archive)
        os.utime(archive)
        return Image(reference, archive)

    def _layer(self, part: _Part) -> Layer:
        path = self.folder / "layers" / f"{part.key}.tar"
        if not path.exists():
            self.say(f"image layer: {part.title}")
            work = Path(tempfile.mkdtemp(dir=self.scratch))
            root = work / "root"
            root.mkdir()
            part.make(root, work)
            images_archive.write_layer(root, work / "layer.tar")
            os.replace(work / "layer.tar", path)
            shutil.rmtree(work)
        os.utime(path)
        return images_archive.read_layer(path)

    def _base(self) -> _Part:
        packages = images_debian.resolve_base(self.recipe.base)

        def make(root: Path, scratch: Path) -> None:
            images_debian.unpack_base(self.recipe.base, packages, root, scratch)
            images_python.compile_bytecode(root / f"usr/lib/python{images_python.PYTHON_VERSION}", root)

        return _Part("Debian and Python", f"base {self.recipe.base} {[*map(str, packages)]}", make)

    def _own_parts(self, image: ImageRecipe) -> Iterator[_Part]:
        if wanted := image.debian:
            found = images_debian.resolve_files(wanted)
            yield _Part(
                f"Debian files of the {image.name}",
                f"files {wanted} {[*map(str, found)]}",
                lambda root, scratch: images_debian.unpack_files(wanted, found, root, scratch),
            )
        pinned = images_python.requirements(image.extras, self.repository)
        yield _Part(
            f"Python packages of the {image.name}",
            f"dependencies {json.dumps(asdict(self.recipe))} {image.commands} {pinned}",
            lambda root, _: images_python.install_dependencies(pinned, self.recipe, image.commands, root),
        )

    def _application(self) -> _Part:
        sources = self.scratch / "sources"
        images_python.copy_sources(self.repository, sources)
        return _Part(
            "modelfleet",
            f"application {self.recipe.application} {_content(sources)}",
            lambda root, _: images_python.install_application(sources, self.recipe, root),
        )


def image_config(image: ImageRecipe, recipe: Recipe) -> dict[str, Any]:
    """The `config` object of the OCI image configuration."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "User": recipe.user,
        "WorkingDir": recipe.working_directory,
        "Env": [f"PATH={path}", *(f"{name}={value}" for name, value in sorted({**recipe.env, **image.env}.items()))],
        "Entrypoint": list(image.entrypoint),
        "ExposedPorts": {f"{port}/tcp": {} for port in image.ports},
        "Labels": {
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.title": image.title,
            "org.opencontainers.image.version": recipe.version,
        },
    }


def _content(folder: Path) -> str:
    """A digest of all files under `folder`, names included."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return _key(*(f"{path.relative_to(folder)} {sha256(path.read_bytes()).hexdigest()}" for path in files))


def _builder_sources() -> str:
    own = (images_archive, images_debian, images_python)
    return _key(*(Path(str(module.__file__)).read_text() for module in own))


def _key(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:_KEY_LENGTH]


def _keep_newest(folder: Path, pattern: str, count: int) -> None:
    by_age = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[count:]:
        path.unlink()
        if path.parent != folder and not any(path.parent.iterdir()):
            path.parent.rmdir()
