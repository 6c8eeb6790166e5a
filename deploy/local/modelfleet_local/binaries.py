"""The programs of a Kubernetes, built from the pinned Go modules in deploy/local/go and kept in the cache.

A binary lies in `bin/NAME-KEY/NAME`; KEY covers the module's files, the flags and the toolchain, so a changed pin is
another folder and an unchanged one is never built twice. Builds are atomic; concurrent callers wait for each other.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from modelfleet_local.errors import LocalClusterError
from modelfleet_local.golang import TOOLCHAIN, find_go
from modelfleet_local.locks import locked
from modelfleet_local.paths import GO_MODULES
from modelfleet_local.processes import tail
from modelfleet_local.progress import Say, still_at_it

_VERSION_PACKAGE = "k8s.io/component-base/version"
_BUILD_ENV = {"GOTOOLCHAIN": TOOLCHAIN, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
_BUILD_FLAGS = ("-trimpath", "-mod=readonly")
_KEY_LENGTH = 12


@dataclass(frozen=True)
class _Module:
    folder: str
    packages: Mapping[str, str]  # binary -> Go package
    ldflags: str = "-s -w"


def _kubernetes(*names: str) -> _Module:
    """The version that `go build` of a dependency leaves out is stamped in, as Kubernetes' own build does."""
    required = re.search(r"k8s\.io/kubernetes v(\S+)", (GO_MODULES / "kubernetes" / "go.mod").read_text())
    if required is None:
        raise LocalClusterError(f"{GO_MODULES / 'kubernetes' / 'go.mod'} requires no k8s.io/kubernetes")
    version = required.group(1)
    major, minor, _ = version.split(".", 2)
    stamps = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    ldflags = "-s -w " + " ".join(f"-X {_VERSION_PACKAGE}.{key}={value}" for key, value in stamps.items())
    return _Module("kubernetes", {name: f"k8s.io/kubernetes/cmd/{name}" for name in names}, ldflags)


_MODULES = (
    _Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    _kubernetes("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"),
    _Module("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    _Module("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}),
    _Module("coredns", {"coredns": "github.com/coredns/coredns"}),
    _Module("lua", {"glua": "github.com/yuin/gopher-lua/cmd/glua"}),
    _Module("kstatus", {"kstatus": "modelfleet.dev/local/kstatus"}),
    _Module("flux", {"kustomize-controller": "github.com/fluxcd/kustomize-controller"}),
    _Module("argocd", {"argocd": "github.com/argoproj/argo-cd/v3/cmd"}),
    _Module("redis", {"miniredis": "modelfleet.dev/local/redis"}),
)
CONTROL_PLANE = ("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
NODE = ("kubelet", "kube-proxy", "coredns")
CHECKS = ("glua", "kstatus")
"""What Argo CD and Flux judge objects with, for tests."""
GITOPS = ("kustomize-controller", "argocd", "miniredis")
"""The controllers themselves, and what Argo CD keeps its cache in: minutes to build, so only `make e2e-gitops` does."""
ALL = (*CONTROL_PLANE, *NODE, "kwok", "helm", *CHECKS)
"""What `prepare` builds."""


class Binaries:
    """Finds the programs in a cache, and builds those that are missing."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def path(self, name: str) -> Path:
        """Where `name` lies once it is built."""
        module = _module_of(name)
        return self._cache / "bin" / f"{name}-{_key(module, name)}" / name

    def ensure(self, names: Sequence[str], say: Say) -> None:
        """Builds what is missing of `names`. Raises LocalClusterError with the end of the build's log."""
        missing = [name for name in names if not self.path(name).exists()]
        if not missing:
            return
        with locked(self._cache / "bin.lock", "another process is building programs; waiting for it", say):
            missing = [name for name in names if not self.path(name).exists()]
            if not missing:
                return
            go = find_go(self._cache, say)
            say(f"building {len(missing)} programs from source with {TOOLCHAIN}: {', '.join(missing)}")
            for number, name in enumerate(missing, 1):
                self._build(go, name, f"{name} ({number} of {len(missing)})", say)

    def module_folder(self, module: str, package_module: str, say: Say) -> Path:
        """The folder of a dependency's own files (kwok's stages) in Go's module cache."""
        go = find_go(self._cache, say)
        argv = [str(go), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", package_module]
        done = subprocess.run(
            argv, cwd=GO_MODULES / module, env=_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0 or not done.stdout.strip():
            raise LocalClusterError(f"`go list -m {package_module}` failed: {done.stderr.strip()}")
        return Path(done.stdout.strip())

    def _build(self, go: Path, name: str, title: str, say: Say) -> None:
        module = _module_of(name)
        target = self.path(name)
        log = self._cache / "logs" / f"build-{name}.log"
        for folder in (target.parent.parent, log.parent):
            folder.mkdir(parents=True, exist_ok=True)
        start_s = time.monotonic()
        with tempfile.TemporaryDirectory(dir=target.parent.parent, prefix=".build-") as scratch:
            argv = [str(go), "build", *_BUILD_FLAGS, "-ldflags", module.ldflags, "-o", f"{scratch}/{name}"]
            with still_at_it(say, f"  {title}"), log.open("wb") as output:
                done = subprocess.run(
                    [*argv, module.packages[name]],
                    cwd=GO_MODULES / module.folder,
                    env=_environment(),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
            if done.returncode != 0:
                raise LocalClusterError(f"building {name} failed; its log is {log}:\n{tail(log)}")
            shutil.rmtree(target.parent, ignore_errors=True)
            os.chmod(scratch, 0o755)
            target.parent.mkdir()
            os.replace(f"{scratch}/{name}", target)
        say(f"  {title}: built in {time.monotonic() - start_s:.0f} s")


def _environment() -> dict[str, str]:
    return {"HOME": str(Path.home()), **os.environ, **_BUILD_ENV}  # Go's caches need a home, which CI may not set


def _module_of(name: str) -> _Module:
    return next(module for module in _MODULES if name in module.packages)


def _own_sources(module: _Module) -> list[str]:
    """The Go files of a program that is ours; tools.go pins others' and is compiled into nothing."""
    return sorted(path.name for path in (GO_MODULES / module.folder).glob("*.go") if path.name != "tools.go")


def _key(module: _Module, name: str) -> str:
    digest = sha256()
    for file in ("go.mod", "go.sum", *_own_sources(module)):
        digest.update((GO_MODULES / module.folder / file).read_bytes())
    environment = sorted(f"{key}={value}" for key, value in _BUILD_ENV.items())
    digest.update(repr([*environment, *_BUILD_FLAGS, module.ldflags, module.packages[name]]).encode())
    return digest.hexdigest()[:_KEY_LENGTH]
