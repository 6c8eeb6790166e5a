"""The command line: one function a command. Failures are one sentence and where to look, never a traceback."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from modelfleet_local import binaries, demo, engine, images, pause, prometheus
from modelfleet_local.cluster import Cluster, Options, known_clusters
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.existing import ImageSource
from modelfleet_local.paths import cache_dir
from modelfleet_local.progress import Clocked

DEFAULT_NAME = "local"
_INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """Runs a command and gives the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        run: Callable[[argparse.Namespace], int] = arguments.run
        return run(arguments)
    except LocalClusterError as error:
        print(f"modelfleet_local: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"modelfleet_local: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("modelfleet_local: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m modelfleet_local", description="A real Kubernetes on this machine."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added

    def named(added: argparse.ArgumentParser) -> argparse.ArgumentParser:
        added.add_argument("--name", default=DEFAULT_NAME, help=f"the cluster (default: {DEFAULT_NAME})")
        return added

    prepare = command("prepare", _prepare, "build and cache everything that demo and tests start")
    prepare.add_argument("--gitops", action="store_true", help="build Flux's and Argo CD's controllers instead")
    prepare.add_argument("--prometheus", action="store_true", help="fetch a Prometheus server instead")
    _demo_options(command("demo", _demo, "a cluster, a model served by vLLM, an answer"))
    up = named(command("up", _up, "start a cluster; heals what an unclean stop left"))
    up.add_argument("--nodes", type=int, default=1, help="real nodes on this machine (default: 1)")
    up.add_argument("--kwok-nodes", type=int, default=0, help="fake nodes with 8 H100 each (default: 0)")
    up.add_argument("--audit", action="store_true", help="write an audit log")
    for name, run, text in (
        ("down", _down, "remove a cluster, whatever state it is in"),
        ("leftovers", _leftovers, "list what is there of a cluster; exit 1 if anything is"),
    ):
        named(command(name, run, text)).add_argument("--all", action="store_true", help="every cluster on this machine")
    named(command("status", _status, "what runs, and how to reach it; exit 1 if not all of it does"))
    for name, run, text in (
        ("kubectl", _kubectl, "run kubectl as administrator: kubectl [--name NAME] -- get pods"),
        ("exec", _exec, "run a command in the cluster's network: exec [--name NAME] -- curl http://10.96.0.10"),
    ):
        named(command(name, run, text)).add_argument("argv", nargs=argparse.REMAINDER, metavar="-- ARGUMENTS")
    return parser


def _prepare(arguments: argparse.Namespace) -> int:
    say = Clocked()
    if arguments.gitops:
        binaries.Binaries(cache_dir()).ensure(binaries.GITOPS, say)
    if arguments.prometheus:
        prometheus.ensure_prometheus(cache_dir(), say)
    if arguments.gitops or arguments.prometheus:
        return 0
    binaries.Binaries(cache_dir()).ensure(binaries.ALL, say)
    pause.ensure_pause(cache_dir())
    engine.ensure_model(cache_dir(), say=say)  # the engine first: the model is made in it
    images.build_images(say=say)
    return 0


def _demo_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", type=Path, help="use this existing cluster, and leave it as it was")
    parser.add_argument("--operator-image", default="", help="on an existing cluster: an image its nodes can pull")
    parser.add_argument("--worker-image", default="", help="the same, of the worker")
    parser.add_argument("--images-loaded", action="store_true", help="its nodes hold this checkout's images already")
    parser.add_argument("--keep", action="store_true", help="leave what the demo made on the existing cluster")


def _demo(arguments: argparse.Namespace) -> int:
    if arguments.kubeconfig is None:
        only = [
            flag for flag in ("operator_image", "worker_image", "images_loaded", "keep") if getattr(arguments, flag)
        ]
        if only:
            raise LocalClusterError(f"--{only[0].replace('_', '-')} is for an existing cluster: give --kubeconfig too")
        demo.run()
    else:
        source = ImageSource(arguments.operator_image, arguments.worker_image, arguments.images_loaded)
        demo.run_existing(arguments.kubeconfig, source, keep=arguments.keep)
    return 0


def _up(arguments: argparse.Namespace) -> int:
    options = Options(nodes=arguments.nodes, kwok_nodes=arguments.kwok_nodes, audit=arguments.audit)
    cluster = Cluster(arguments.name, options, say=Clocked())
    cluster.up()
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    for cluster in _chosen(arguments):
        if not cluster.leftovers():
            print(f"cluster {cluster.name} is not there", file=sys.stderr)
            continue
        cluster.down()
        print(f"cluster {cluster.name} is down; its logs stay in {cluster.logs}", file=sys.stderr)
    return 0


def _leftovers(arguments: argparse.Namespace) -> int:
    found = [f"{cluster.name}: {line}" for cluster in _chosen(arguments) for line in cluster.leftovers()]
    print("\n".join(found) or "nothing is left")
    return 1 if found else 0


def _status(arguments: argparse.Namespace) -> int:
    cluster = Cluster(arguments.name)
    parts = cluster.processes()
    if not parts:
        print(f"cluster {cluster.name} is down")
        return 1
    for name, pid in parts.items():
        print(f"{name:28} {f'pid {pid}' if pid else 'ENDED'}  {cluster.logs / f'{name}.log'}")
    print(f"kubeconfig: {cluster.kubeconfig}")
    nodes = cluster.kubectl("get", "nodes")
    print(nodes.stdout or nodes.stderr, end="")
    return 0 if all(parts.values()) and nodes.returncode == 0 else 1


def _kubectl(arguments: argparse.Namespace) -> int:
    cluster = Cluster(arguments.name)
    kubectl = str(cluster.binary("kubectl"))
    os.execv(kubectl, [kubectl, f"--kubeconfig={cluster.require_up()}", *_after_dashes(arguments.argv)])


def _exec(arguments: argparse.Namespace) -> int:
    argv = Cluster(arguments.name).netns_argv(_after_dashes(arguments.argv))
    os.execvp(argv[0], argv)


def _chosen(arguments: argparse.Namespace) -> list[Cluster]:
    return [Cluster(name) for name in (known_clusters() if arguments.all else [arguments.name])]


def _after_dashes(argv: Sequence[str]) -> Sequence[str]:
    rest = argv[1:] if argv[:1] == ["--"] else argv
    if not rest:
        raise LocalClusterError("nothing to run; write the command after --")
    return rest
