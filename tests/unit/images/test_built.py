"""The images themselves, run as their pods run them: as user 65532, on a read-only root, cut off from this machine."""

import json
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from modelfleet_local import images_archive, images_debian, images_python
from modelfleet_local.images import Image, build_images
from modelfleet_local.images_python import copy_sources
from modelfleet_local.images_recipe import read_recipe
from modelfleet_local.paths import REPOSITORY

_ELF = b"\x7fELF"


class Archive:
    """An image archive as containerd reads it."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.index = json.load(self._open("index.json"))
        self.manifest = self._blob(self.index["manifests"][0]["digest"])
        self.config = self._blob(self.manifest["config"]["digest"])["config"]

    def layers(self) -> Iterator[tarfile.TarFile]:
        for layer in self.manifest["layers"]:
            with tarfile.open(fileobj=self._open(_name(layer["digest"]))) as tar:
                yield tar

    def _blob(self, digest: str) -> Any:
        return json.load(self._open(_name(digest)))

    def _open(self, name: str) -> IO[bytes]:
        file = self._tar.extractfile(name)
        assert file is not None
        return file


def _name(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the images are built from, held still while the tests run."""
    folder = tmp_path_factory.mktemp("checkout")
    copy_sources(REPOSITORY, folder)
    for name in ("uv.lock", "deploy/images/images.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def images(checkout: Path) -> Mapping[str, Image]:
    return build_images(repository=checkout)


@pytest.fixture(scope="session", params=("operator", "worker"))
def built(request: pytest.FixtureRequest, images: Mapping[str, Image]) -> Iterator[tuple[str, Archive]]:
    with tarfile.open(images[request.param].archive) as tar:
        yield request.param, Archive(tar)


@pytest.fixture(scope="session")
def roots(images: Mapping[str, Image], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    roots = {}
    for name, image in images.items():
        roots[name] = tmp_path_factory.mktemp(name)
        roots[name].chmod(0o755)
        with tarfile.open(image.archive) as tar:
            for layer in Archive(tar).layers():
                layer.extractall(roots[name], filter="fully_trusted")
    return roots


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs `command` in a mount namespace of its own whose root is read-only, as the images' user; /tmp is writable."""
    script = (
        'mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" '
        '&& mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/tmp" '
        '&& exec chroot --userspec=65532:65532 "$0" "$@"'
    )
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
    isolated = ("unshare", "--mount", "--net", "--pid", "--fork", "/bin/sh", "-c", script, str(root), *command)
    return subprocess.run(isolated, env=env, capture_output=True, text=True)


def python(root: Path, interpreter: str, code: str) -> str:
    done = run(root, interpreter, "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_file_is_setuid_or_writable_by_all_but_tmp(built: tuple[str, Archive]) -> None:
    for layer in built[1].layers():
        for member in layer:
            assert not member.mode & (stat.S_ISUID | stat.S_ISGID), member.name
            assert member.issym() or not member.mode & stat.S_IWOTH or member.name == "tmp", member.name


def test_the_images_share_their_base(images: Mapping[str, Image]) -> None:
    bases = set()
    for image in images.values():
        with tarfile.open(image.archive) as tar:
            bases.add(Archive(tar).manifest["layers"][0]["digest"])
    assert len(bases) == 1


def test_a_second_build_of_the_same_sources_does_nothing(images: Mapping[str, Image], checkout: Path) -> None:
    steps: list[str] = []
    assert build_images(repository=checkout, say=steps.append) == images
    assert steps == []


def test_a_lost_archive_is_built_again_and_equal(images: Mapping[str, Image], checkout: Path) -> None:
    archive = images["worker"].archive
    before = archive.read_bytes()
    archive.unlink()
    assert build_images(repository=checkout) == images
    assert archive.read_bytes() == before


def test_the_same_inputs_make_the_same_layers_again(
    images: Mapping[str, Image], checkout: Path, tmp_path: Path
) -> None:
    recipe = read_recipe(checkout)
    base, python_packages = tmp_path / "base", tmp_path / "python"
    images_debian.unpack_base(recipe.base, images_debian.resolve_base(recipe.base), base, tmp_path)
    images_python.compile_bytecode(base / "usr/lib/python3.11", base)
    (worker,) = (image for image in recipe.images if image.name == "worker")
    pinned = images_python.requirements(worker.extras, checkout)
    images_python.install_dependencies(pinned, recipe, worker.commands, python_packages)
    again = {images_archive.write_layer(root, root.with_suffix(".tar")).digest for root in (base, python_packages)}
    with tarfile.open(images["worker"].archive) as tar:
        assert again <= {layer["digest"] for layer in Archive(tar).manifest["layers"]}


def test_every_library_finds_what_it_links(roots: Mapping[str, Path]) -> None:
    for root in roots.values():
        with_code = [path for path in (root / "usr").rglob("*") if path.is_file() and not path.is_symlink()]
        inside = [f"/{path.relative_to(root)}" for path in with_code if path.open("rb").read(4) == _ELF]
        loader = next(path for path in inside if "/ld-linux" in path)
        missing = [f"{path}: {line.strip()}" for path in inside for line in unresolved(root, loader, path)]
        assert missing == []


def unresolved(root: Path, loader: str, path: str) -> list[str]:
    listed = subprocess.run(("chroot", str(root), loader, "--list", path), capture_output=True, text=True)
    return [line for line in listed.stdout.splitlines() if "not found" in line]


def test_the_operator_image_runs_its_commands(roots: Mapping[str, Path]) -> None:
    for command in (("modelfleet", "version"), ("modelfleet-operator", "--help"), ("modelfleet-activator", "--help")):
        done = run(roots["operator"], *command)
        assert done.returncode == 0, done.stderr


def test_the_operator_image_has_roots_of_trust_and_time_zones(roots: Mapping[str, Path]) -> None:
    certificates = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    assert int(python(roots["operator"], "/opt/modelfleet/bin/python", certificates)) > 50
    zone = "import zoneinfo; print(zoneinfo.ZoneInfo('Europe/Berlin'))"
    assert python(roots["operator"], "/opt/modelfleet/bin/python", zone) == "Europe/Berlin"


def test_the_worker_image_runs_its_command(roots: Mapping[str, Path]) -> None:
    done = run(roots["worker"], "modelfleet-worker", "--help")
    assert done.returncode == 0, done.stderr


def test_the_worker_image_has_what_an_engine_asks_its_shell_for(roots: Mapping[str, Path]) -> None:
    done = run(roots["worker"], "/bin/sh", "-c", "command -v lscpu && lscpu --version")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["operator", "worker"])
def test_our_packages_are_found_by_our_python_only(name: str, roots: Mapping[str, Path]) -> None:
    ours = ("modelfleet", "modelfleet_worker", "aiohttp")
    code = f"from importlib.util import find_spec; print([find_spec(name) is not None for name in {ours}])"
    assert python(roots[name], "/opt/modelfleet/bin/python", code) == "[True, True, True]"
    assert python(roots[name], "/usr/bin/python3.11", code) == "[False, False, False]"


@pytest.mark.parametrize("name", ["operator", "worker"])
def test_all_of_our_code_comes_with_bytecode(name: str, roots: Mapping[str, Path]) -> None:
    cached = python(roots[name], "/opt/modelfleet/bin/python", "import modelfleet; print(modelfleet.__cached__)")
    assert (roots[name] / cached.lstrip("/")).is_file()
    application = roots[name] / "opt/modelfleet/app"
    compiled = {
        path.parent.parent / path.name.replace(".cpython-311.pyc", ".py") for path in application.rglob("*.pyc")
    }
    assert compiled == set(application.rglob("*.py"))
