"""Root file systems out of Debian packages: resolved and fetched by apt, unpacked without installing anything."""

import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import unquote

from modelfleet_local.errors import LocalClusterError
from modelfleet_local.images_recipe import BasePackages, DebianFiles

_MERGED = ("bin", "sbin", "lib", "lib64")  # Debian 12 keeps these under /usr and links to them
_PRUNED = ("usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/bash-completion")
_PASSWD = "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/usr/sbin/nologin\n"
_GROUP = "root:x:0:\ntty:x:5:\nnonroot:x:65532:\n"
_NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"


@dataclass(frozen=True, order=True)
class Package:
    """One version of a Debian package."""

    name: str
    version: str
    architecture: str

    def __str__(self) -> str:
        return f"{self.name}:{self.architecture}={self.version}"


def resolve_base(base: BasePackages) -> tuple[Package, ...]:
    """The newest version of every package of the base layer, sorted, as apt would choose on an empty system."""
    empty_system = ("-o", "Dir::State::status=/dev/null")
    out = _apt("install", "--print-uris", "--yes", "--no-install-recommends", *empty_system, *base.packages)
    return tuple(p for p in _parse_uris(out) if p.name not in base.without)


def resolve_files(wanted: DebianFiles) -> tuple[Package, ...]:
    """The newest version of each package of `wanted`, sorted."""
    return _parse_uris(_apt("download", "--print-uris", *wanted.packages))


def unpack_base(base: BasePackages, packages: Iterable[Package], root: Path, scratch: Path) -> None:
    """Makes a root file system of `packages` in `root`: users, certificates and the record of packages included."""
    _merge_usr(root)
    for archive in _fetch(packages, scratch):
        _unpack(archive, root)
        _record(archive, root)
    for pruned in _PRUNED:
        shutil.rmtree(root / pruned, ignore_errors=True)
    for page in [p for p in (root / "usr/share/doc").rglob("*") if p.name != "copyright" and not p.is_dir()]:
        page.unlink()
    _configure(root)
    _link(base.links, root)


def unpack_files(wanted: DebianFiles, packages: Iterable[Package], root: Path, scratch: Path) -> None:
    """Puts the files of `wanted` into `root`, a layer to lie over the base."""
    whole = scratch / "whole"
    for archive in _fetch(packages, scratch):
        _unpack(archive, whole)
        _record(archive, root)
    for path in sorted(whole.rglob("*")):
        inside = path.relative_to(whole)
        if not path.is_dir() and any(fnmatch(str(inside), pattern) for pattern in wanted.files):
            target = root / ("usr" / inside if inside.parts[0] in _MERGED else inside)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target, follow_symlinks=False)
    _link(wanted.links, root)


def _parse_uris(out: str) -> tuple[Package, ...]:
    """Reads `'URI' NAME_VERSION_ARCH.deb SIZE HASH` lines; the version is percent-encoded."""
    names = (line.split()[1].removesuffix(".deb") for line in out.splitlines() if line.startswith("'"))
    return tuple(sorted(Package(*map(unquote, name.split("_"))) for name in names))


def _fetch(packages: Iterable[Package], scratch: Path) -> Sequence[Path]:
    folder = scratch / "debs"
    folder.mkdir(parents=True)
    _apt("download", *map(str, packages), cwd=folder)
    return sorted(folder.glob("*.deb"))


def _apt(*arguments: str, cwd: Path | None = None) -> str:
    """Runs apt-get, which checks signatures and sums; an index that is missing or out of date is refreshed once."""
    if shutil.which("apt-get") is None:
        raise LocalClusterError("apt-get is missing: images can be built on Debian or its kind only")
    command = ("apt-get", "-qq", "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root", *arguments)
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        update = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120", "update")
        refresh = subprocess.run(update, capture_output=True, text=True)
        if refresh.returncode:
            raise LocalClusterError(f"apt-get update failed: {refresh.stderr.strip()}")
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise LocalClusterError(f"apt-get {arguments[0]} failed, also after apt-get update: {done.stderr.strip()}")
    return done.stdout


def _unpack(archive: Path, root: Path) -> None:
    """Unpacks the files of a package; runs none of its scripts."""
    root.mkdir(exist_ok=True)
    with subprocess.Popen(("dpkg-deb", "--fsys-tarfile", str(archive)), stdout=subprocess.PIPE) as files:
        flags = ("--no-same-owner", "--no-same-permissions", "--keep-directory-symlink")
        subprocess.run(("tar", "-x", "-C", str(root), *flags), stdin=files.stdout, check=True)
    if files.returncode:
        raise LocalClusterError(f"{archive.name} cannot be unpacked: dpkg-deb ended with {files.returncode}")


def _record(archive: Path, root: Path) -> None:
    """Leaves the package's control record where vulnerability scanners look when there is no dpkg."""
    folder = root / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True, exist_ok=True)
    control = subprocess.run(("dpkg-deb", "--field", str(archive)), check=True, capture_output=True, text=True).stdout
    (folder / archive.name.split("_")[0]).write_text(control)


def _link(links: Mapping[str, str], root: Path) -> None:
    for link, target in links.items():
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(target)


def _merge_usr(root: Path) -> None:
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")


def _configure(root: Path) -> None:
    """Does by hand the little that the packages' scripts would have done."""
    for folder in ("dev", "proc", "run", "sys", "tmp", "usr/local/bin"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, text in {"passwd": _PASSWD, "group": _GROUP, "nsswitch.conf": _NSSWITCH}.items():
        (root / "etc" / name).write_text(text)
    shutil.copy(Path("/etc/os-release"), root / "etc/os-release")
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_bytes(b"".join(f.read_bytes() for f in sorted((root / "usr/share/ca-certificates").rglob("*.crt"))))
    (root / "usr/lib/ssl").mkdir(parents=True, exist_ok=True)
    (root / "usr/lib/ssl/cert.pem").symlink_to("/etc/ssl/certs/ca-certificates.crt")
    (root / "usr/lib/ssl/certs").symlink_to("/etc/ssl/certs")
