"""How workers' metrics are read, and the flags that say so. Pure."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from modelfleet.controller.flags import OptionsError, choice, number


class SamplesFrom(StrEnum):
    """Who is asked what workers measure."""

    WORKERS = "Workers"
    PROMETHEUS = "Prometheus"


@dataclass(frozen=True, kw_only=True)
class Server:
    """A Prometheus. `token` and `authority` are files of a bearer token and of a certificate authority.

    Both are read at each query, because both are renewed while we run.
    """

    url: str
    token: Path | None = None
    authority: Path | None = None


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """Where samples come from. With `prometheus` the source that is not used is looked at too, to compare."""

    source: SamplesFrom = SamplesFrom.WORKERS
    interval_s: float = 5.0
    prometheus: Server | None = None


def add_sampling(add: Callable[[str, Callable[[str], object], str | None, str], None]) -> None:
    """The flags."""
    add("samples-from", choice(*SamplesFrom), "Workers", "who is asked what workers measure: they or a Prometheus")
    add("samples-interval-seconds", number(float, 1, 60), "5", "how often")
    add("prometheus-url", _url, "", "address of that Prometheus; with samples from workers it is only compared with")
    add("prometheus-token-file", str, "", "file of a bearer token for it")
    add("prometheus-ca-file", str, "", "file of the certificate authority that its certificate is checked by")


def read_sampling(read: argparse.Namespace) -> SamplingSettings:
    """What the flags say. Raises OptionsError."""
    server = None
    if read.prometheus_url:
        server = Server(
            url=read.prometheus_url, token=_file(read.prometheus_token_file), authority=_file(read.prometheus_ca_file)
        )
    elif read.samples_from == SamplesFrom.PROMETHEUS:
        raise OptionsError(
            "samples are to come from a Prometheus whose address is not known: give --prometheus-url, or"
            " --samples-from=Workers; see modelfleet-operator --help"
        )
    return SamplingSettings(
        source=SamplesFrom(read.samples_from), interval_s=read.samples_interval_seconds, prometheus=server
    )


def _file(path: str) -> Path | None:
    return Path(path) if path else None


def _url(text: str) -> str:
    """Raises ArgumentTypeError for what is no address of a server."""
    if text and (not text.startswith(("http://", "https://")) or len(text.split()) != 1):
        raise argparse.ArgumentTypeError(f"must be an address such as http://prometheus.monitoring:9090, not {text!r}")
    return text
