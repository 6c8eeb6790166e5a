"""The activator's flags. Pure but for the default of `environment`.

Every flag has an environment variable of the same name: --held-bytes is MODELFLEET_HELD_BYTES. POD_NAME, POD_NAMESPACE,
POD_IP and NODE_NAME, which the chart sets from the pod's own fields, say who this activator is.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelfleet.controller.flags import Adder, OptionsError, Parser, choice, number
from modelfleet.core.activation.holding import Limits
from modelfleet.core.activation.slices import Own


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the process was started with. Times in seconds. `own`: None where it has no address to be reached at, and
    then it keeps no slice. `service`: the activators' own, by which those that live are known."""

    pod: str
    own: Own | None
    namespaces: tuple[str, ...]
    service: str
    kubeconfig: str | None
    host: str | None
    metrics_host: str | None
    metrics_port: int
    log_level: str
    limits: Limits
    comment_s: float
    propagation_s: float
    grace_s: float
    token_file: str | None


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Options:
    """The options. Raises OptionsError; --help prints and exits."""
    parser = Parser(
        prog="modelfleet-activator",
        allow_abbrev=False,
        description="Holds requests for models at zero and hands them to the replicas that come.",
    )
    add, default = Adder(parser, environment), Limits()
    add("namespaces", str, "", "namespaces to serve, separated by commas (default: all)")
    add("service", str, "", "the activators' own Service in POD_NAMESPACE (default: none; gone ones stay in slices)")
    add("kubeconfig", str, "", "path of a kubeconfig (default: the pod's service account, else kubectl's own)")
    add("host", str, "", "address that models' ports listen on (default: all)")
    add("metrics-host", str, "", "address of /metrics, /healthz and /readyz (default: all)")
    add("metrics-port", number(int, 0, 65535), "8080", "port of the same; 0 takes a free one")
    add("log-level", choice("debug", "info", "warning", "error"), "info", "least severe log line")
    add("held-requests", number(int, 1, 1_000_000), str(default.requests), "requests that are held at most")
    add("held-bytes", number(int, 1, 2**40), str(default.total_bytes), "bytes of bodies that are held at most")
    add("held-body-bytes", number(int, 1, 2**30), str(default.body_bytes), "bytes of one body that is held")
    add("comment-seconds", number(float, 0.1, 3600), "15", "between two comments of a stream that waits")
    add("propagation-seconds", number(float, 0, 300), "5", "how long requests still come after SIGTERM")
    add("grace-seconds", number(float, 0, 86400), "860", "longest that it goes on after SIGTERM")
    add("caller-token-file", str, "", "file with the token by which workers believe what it says of a request")
    read = parser.parse_args(arguments)
    pod = environment.get("POD_NAME", "")
    if not pod:
        raise OptionsError("the activator's name is not known: set POD_NAME, which keys its entry in status.demand")
    return Options(
        pod=pod,
        own=_own(pod, environment),
        namespaces=tuple(name.strip() for name in read.namespaces.split(",") if name.strip()),
        service=_service(read.service, environment),
        kubeconfig=read.kubeconfig or None,
        host=read.host or None,
        metrics_host=read.metrics_host or None,
        metrics_port=read.metrics_port,
        log_level=read.log_level,
        limits=Limits(read.held_requests, read.held_bytes, read.held_body_bytes),
        comment_s=read.comment_seconds,
        propagation_s=read.propagation_seconds,
        grace_s=read.grace_seconds,
        token_file=read.caller_token_file or None,
    )


def _own(pod: str, environment: Mapping[str, str]) -> Own | None:
    address = environment.get("POD_IP", "")
    if not address:
        return None
    return Own(address, pod, environment.get("POD_NAMESPACE", ""), environment.get("NODE_NAME", ""))


def _service(name: str, environment: Mapping[str, str]) -> str:
    if name and not environment.get("POD_NAMESPACE"):
        raise OptionsError("--service is in the namespace that POD_NAMESPACE names, and it is not set")
    return name
