"""The operator's flags. Pure but for the default of `environment` and the file of tokens.

Every flag has an environment variable of the same name: --worker-image is MODELFLEET_WORKER_IMAGE. POD_NAMESPACE and
POD_NAME, which the chart sets from the pod's own fields, say where the Lease is and under which name it is held.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from modelfleet.api.sources import NodePath
from modelfleet.controller.callers import sums_of
from modelfleet.controller.flags import PREFIX, Adder, Parser, choice, number
from modelfleet.controller.flags import OptionsError as OptionsError
from modelfleet.controller.metrics.settings import SamplingSettings, add_sampling, read_sampling
from modelfleet.core.snapshot import Settings


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Where the Lease is by which one of several processes leads; `holder` is this one's name, "" if it has none."""

    namespace: str
    name: str
    holder: str


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the process was started with. Times in seconds. Without `lease` it leads without asking."""

    settings: Settings
    namespaces: tuple[str, ...]
    kubeconfig: str | None
    metrics_host: str | None
    metrics_port: int
    log_level: str
    workers: int
    resync_s: float
    api_qps: float
    api_burst: int
    start_timeout_s: float
    lease: Lease | None
    sampling: SamplingSettings = field(default_factory=SamplingSettings)


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Options:
    """The options. Raises OptionsError; --help and --version print and exit."""
    parser = Parser(
        prog="modelfleet-operator", allow_abbrev=False, description="Runs the controller of modelfleet.dev/v1alpha1."
    )
    add = Adder(parser, environment)
    add("worker-image", str, None, "image of the worker pods, unless a ModelDeployment names its own (required)")
    add("image-pull-policy", choice("Always", "IfNotPresent", "Never"), "IfNotPresent", "pull policy of that image")
    add("namespaces", str, "", "namespaces to serve, separated by commas (default: all)")
    add("kubeconfig", str, "", "path of a kubeconfig (default: the pod's service account, else kubectl's own)")
    add("metrics-host", str, "", "address of /metrics, /healthz and /readyz (default: all)")
    add("metrics-port", number(int, 0, 65535), "8080", "port of the same; 0 takes a free one")
    add("log-level", choice("debug", "info", "warning", "error"), "info", "least severe log line")
    add("workers", number(int, 1, 256), "16", "reconciles at a time")
    add("resync-seconds", number(float, 1, 86400), "600", "how often everything is looked at without an event")
    add("api-qps", number(float, 1, 10000), "200", "requests a second to the API server (its watches and Lease apart)")
    add("api-burst", number(int, 1, 100000), "400", "requests that may be sent at once after a pause")
    add(
        "start-timeout-seconds",
        number(float, 0, 3600),
        "120",
        "how long to wait at start for the API server and the CRDs",
    )
    add("leader-elect", choice("true", "false"), "true", "lead by a Lease; false only where no second process runs")
    add("lease-name", str, "modelfleet-operator", "name of that Lease")
    add("lease-namespace", str, environment.get("POD_NAMESPACE", ""), "its namespace (default: POD_NAMESPACE)")
    add("drain-seconds", number(float, 0, 86400), "300", "longest wait for requests in flight when a worker ends")
    add("propagation-seconds", number(float, 0, 300), "5", "until every proxy has noticed a Service's change")
    add("start-deadline-seconds", number(float, 1, 86400), "1800", "from a worker's start to its first token")
    add("profiles-seconds", number(float, 1, 86400), "600", "how often at most a model's measurements are written")
    add("node-folders", _folders, "", "folders of nodes below which file:// may name a model, separated by commas")
    add("caller-token-file", _callers, "", "file with the tokens of activators, one a line, whose word workers believe")
    add_sampling(add)
    return _options(parser.parse_args(arguments), environment.get("POD_NAME", ""))


def _folders(text: str) -> tuple[str, ...]:
    """Raises ArgumentTypeError for what is no absolute path, or the root."""
    found = tuple(each.strip().rstrip("/") for each in text.split(",") if each.strip())
    for each in found:
        try:
            NodePath(each)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{each or '/'!r}: {error}") from error
    return found


def _callers(path: str) -> tuple[str, ...]:
    """Raises ArgumentTypeError for a file that holds no token."""
    try:
        return sums_of(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _lease(read: argparse.Namespace, holder: str) -> Lease | None:
    if read.leader_elect == "false":
        return None
    if not read.lease_namespace:
        raise OptionsError(
            "the Lease's namespace is not known: give --lease-namespace or set POD_NAMESPACE, or give"
            " --leader-elect=false if this is the only process; see modelfleet-operator --help"
        )
    if not read.lease_name:
        raise OptionsError("the Lease's name is empty: give --lease-name; see modelfleet-operator --help")
    return Lease(namespace=read.lease_namespace, name=read.lease_name, holder=holder)


def _options(read: argparse.Namespace, holder: str) -> Options:
    if not read.worker_image:
        raise OptionsError(
            f"the worker image is not known: give --worker-image or set {PREFIX}WORKER_IMAGE;"
            " see modelfleet-operator --help"
        )
    return Options(
        settings=Settings(
            worker_image=read.worker_image,
            image_pull_policy=read.image_pull_policy,
            propagation_s=read.propagation_seconds,
            drain_s=read.drain_seconds,
            start_deadline_s=read.start_deadline_seconds,
            node_folders=read.node_folders,
            callers=read.caller_token_file,
            profiles_s=read.profiles_seconds,
        ),
        namespaces=tuple(name.strip() for name in read.namespaces.split(",") if name.strip()),
        kubeconfig=read.kubeconfig or None,
        metrics_host=read.metrics_host or None,
        metrics_port=read.metrics_port,
        log_level=read.log_level,
        workers=read.workers,
        resync_s=read.resync_seconds,
        api_qps=read.api_qps,
        api_burst=read.api_burst,
        start_timeout_s=read.start_timeout_seconds,
        lease=_lease(read, holder),
        sampling=read_sampling(read),
    )
