"""`modelfleet catalog`: the accelerators that the planner knows, as a table or as manifests for kubectl apply."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from modelfleet.api import names
from modelfleet.cli.cases import class_entry
from modelfleet.cli.fields import RowError
from modelfleet.cli.plan_text import columns
from modelfleet.cli.terminal import Output, show
from modelfleet.cli.yaml_io import MissingExtraError, dump
from modelfleet.core.catalog import CATALOG, CatalogEntry
from modelfleet.core.hardware import Hardware

OWN_LABEL = f"{names.GROUP}/accelerator"
"""What to label nodes with where no vendor's labeller marks them."""

_GIB, _MIB = 1 << 30, 1 << 20


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "catalog",
        help="list the accelerators that the planner knows, or print them as AcceleratorClasses",
        description="-o yaml prints manifests for `kubectl apply -f -`; look at the price and the node selector first."
        " -o json has every fact with its source.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; default: all")
    parser.add_argument(
        "-o",
        "--output",
        type=Output,
        choices=list(Output),
        default=Output.TABLE,
        metavar="FORMAT",
        help="table, json or yaml; default: table",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the entries; 2 if a name is not in the catalogue."""
    try:
        entries = [class_entry(name) for name in arguments.names] or list(CATALOG.values())
        text = _printed(arguments.output, entries, detailed=bool(arguments.names))
    except (RowError, MissingExtraError) as error:
        print(f"modelfleet: {error}", file=sys.stderr)
        return 2
    show(text)
    return 0


def _printed(output: Output, entries: list[CatalogEntry], *, detailed: bool) -> str:
    if output is Output.JSON:
        return json.dumps([facts(entry) for entry in entries], indent=2, ensure_ascii=False)
    if output is Output.YAML:
        return "---\n".join(dump(manifest(entry)) for entry in entries).rstrip()
    if detailed:
        return "\n\n".join("\n".join(_details(entry)) for entry in entries)
    header = ("name", "accelerator", "memory", "bandwidth", "bf16", "fp8", "fp4", "fabric", "an hour")
    return "\n".join(line[2:] for line in columns(header, [_row(entry) for entry in entries]))


def _row(entry: CatalogEntry) -> tuple[str, ...]:
    hardware = entry.hardware
    return (
        hardware.name,
        entry.title,
        f"{hardware.memory_bytes / _GIB:.1f} GiB",
        f"{hardware.memory_bytes_per_s / 1e9:,.0f} GB/s",
        *(_teraflops(hardware, precision) for precision in ("bf16", "fp8", "fp4")),
        f"{hardware.domain} × {hardware.fabric_bytes_per_s / 1e9:,.0f} GB/s",
        "" if hardware.price_per_hour is None else f"{hardware.price_per_hour:.2f} {hardware.currency}",
    )


def _teraflops(hardware: Hardware, precision: str) -> str:
    value = hardware.flops.get(precision)
    return "" if value is None else f"{value / 1e12:,.0f} T"


def _details(entry: CatalogEntry) -> Iterator[str]:
    yield f"{entry.hardware.name}: {entry.title} ({entry.vendor}, {entry.generation})"
    lines = {
        "memory": f"{entry.hardware.memory_bytes / _GIB:.2f} GiB, {entry.hardware.memory_bytes_per_s / 1e9:,.0f} GB/s",
        "arithmetic": ", ".join(f"{key} {value / 1e12:,.0f} T/s" for key, value in entry.hardware.flops.items()),
        "node": f"{entry.hardware.accelerators_per_node} accelerators",
        "fabric": f"{entry.fabric}, {entry.hardware.domain} × {entry.hardware.fabric_bytes_per_s / 1e9:,.0f} GB/s",
        "network": f"{entry.hardware.network_bytes_per_s / 1e9:,.0f} GB/s"
        if entry.hardware.network_bytes_per_s
        else "",
        "price": f"{entry.hardware.price_per_hour} {entry.hardware.currency} an hour, {entry.price_basis}"
        if entry.hardware.price_per_hour is not None
        else "",
        "standard": ", ".join(
            f"{what} {scheme}"
            for what, scheme in (("weights", entry.standard_weights), ("KV cache", entry.standard_kv))
            if scheme
        ),
        "engines": ", ".join(entry.engines),
        "nodes": ", ".join(f"{key}={value}" for key, value in entry.node_labels.items()),
        "note": entry.note,
    }
    yield from (f"  {name:<11} {value}" for name, value in lines.items() if value)
    yield from (f"  source of {fact}: {source}" for fact, source in entry.sources.items())


def facts(entry: CatalogEntry) -> dict[str, Any]:
    """An entry as JSON; bandwidths are bytes a second of one direction, arithmetic is operations a second."""
    hardware = entry.hardware
    capability = entry.compute_capability
    return {
        "name": hardware.name,
        "title": entry.title,
        "vendor": entry.vendor,
        "generation": entry.generation,
        "memoryBytes": hardware.memory_bytes,
        "memoryBytesPerSecond": hardware.memory_bytes_per_s,
        "operationsPerSecond": dict(hardware.flops),
        "computeCapability": None if capability is None else f"{capability[0]}.{capability[1]}",
        "acceleratorsPerNode": hardware.accelerators_per_node,
        "fabric": entry.fabric,
        "fabricDomain": hardware.domain,
        "fabricBytesPerSecond": hardware.fabric_bytes_per_s,
        "networkBytesPerSecond": hardware.network_bytes_per_s or None,
        "pricePerHour": None if hardware.price_per_hour is None else str(hardware.price_per_hour),
        "currency": hardware.currency,
        "priceBasis": entry.price_basis,
        "standardWeights": entry.standard_weights,
        "standardKvCache": entry.standard_kv,
        "engines": list(entry.engines),
        "resourceName": entry.resource_name,
        "nodeLabels": dict(entry.node_labels),
        "sources": dict(entry.sources),
        "note": entry.note,
    }


def manifest(entry: CatalogEntry) -> dict[str, Any]:
    """The entry as an AcceleratorClass. Where no labeller marks the nodes, it selects a label to set by hand."""
    hardware = entry.hardware
    capability = entry.compute_capability
    spec: dict[str, Any] = {
        "nodeSelector": dict(entry.node_labels) or {OWN_LABEL: hardware.name},
        "resourceName": entry.resource_name,
        "acceleratorsPerNode": hardware.accelerators_per_node,
        "memory": f"{hardware.memory_bytes // _MIB}Mi",
        "memoryBandwidth": _quantity(hardware.memory_bytes_per_s),
        "compute": {key: _quantity(value) for key, value in hardware.flops.items()},
        "fabric": {"bandwidth": _quantity(hardware.fabric_bytes_per_s), "domainSize": hardware.domain},
    }
    if capability is not None:
        spec["computeCapability"] = f"{capability[0]}.{capability[1]}"
    if hardware.network_bytes_per_s:
        spec["network"] = {"bandwidth": _quantity(hardware.network_bytes_per_s)}
    if hardware.price_per_hour is not None:
        price = {"pricePerAcceleratorHour": f"{hardware.price_per_hour}", "currency": hardware.currency}
        spec["supplies"] = [{"name": "list-price", **price}]
    standard = {"weights": entry.standard_weights, "kvCache": entry.standard_kv}
    if any(standard.values()):
        spec["standardQuantization"] = {key: value.value for key, value in standard.items() if value is not None}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.CLASS_KIND,
        "metadata": {"name": hardware.name, "annotations": _annotations(entry)},
        "spec": spec,
    }


def _annotations(entry: CatalogEntry) -> dict[str, str]:
    told: Iterable[tuple[str, str]] = (
        ("accelerator", entry.title),
        ("price-basis", entry.price_basis),
        ("note", entry.note),
        *((f"source-of-{fact}", source) for fact, source in entry.sources.items()),
    )
    return {f"{names.GROUP}/{key}": value for key, value in told if value}


def _quantity(value: float) -> str:
    """A Kubernetes quantity without a fraction: 3350G, 989T."""
    for suffix, unit in (("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if value % unit == 0:
            return f"{value / unit:.0f}{suffix}"
    return f"{value:.0f}"
