"""The catalogue: every kind has its facts with sources, and the facts hold together."""

import pytest

from modelfleet.core.catalog import CATALOG
from modelfleet.core.model.facts import Scheme

GIB = 2**30
NAMES = [
    "t4",
    "v100-16",
    "a10",
    "a10g",
    "l4",
    "l40",
    "l40s",
    "a30",
    "a40",
    "a6000",
    "a100-40",
    "a100-80-pcie",
    "a100-80",
    "h100-pcie",
    "h100-nvl",
    "h100-sxm",
    "h20",
    "gh200-96",
    "h200",
    "b200",
    "b300",
    "gb200",
    "gb300",
    "rtx-pro-6000",
    "rtx-3090",
    "rtx-4090",
    "rtx-5090",
    "mi300x",
    "mi325x",
    "mi355x",
    "b60",
]


def test_all_kinds_are_there():
    assert sorted(CATALOG) == sorted(NAMES)


@pytest.mark.parametrize("key", NAMES)
def test_a_kind_has_what_a_prediction_needs_and_says_from_where(key):
    entry, hardware = CATALOG[key], CATALOG[key].hardware
    assert hardware.name == key
    assert 14 * GIB < hardware.memory_bytes < 290 * GIB
    assert 0.3e12 <= hardware.memory_bytes_per_s <= 8e12
    assert hardware.flops["bf16"] > 60e12
    assert 16e9 <= hardware.fabric_bytes_per_s <= 900e9
    assert entry.sources["memory"]
    assert entry.sources["figures"]
    assert (hardware.price_per_hour is None) == ("price" not in entry.sources)
    assert bool(entry.price_basis) == (hardware.price_per_hour is not None)


@pytest.mark.parametrize("key", NAMES)
def test_narrower_arithmetic_is_never_slower(key):
    flops = CATALOG[key].hardware.flops
    rates = [flops[precision] for precision in ("bf16", "fp8", "fp4") if precision in flops]
    assert rates == sorted(rates)


@pytest.mark.parametrize(
    ("key", "gib"),
    [("h100-sxm", 79.18), ("h200", 139.8), ("a100-40", 39.39), ("rtx-3090", 23.58), ("mi300x", 191.98)],
)
def test_memory_is_what_the_engine_is_told(key, gib):
    assert CATALOG[key].hardware.memory_bytes / GIB == pytest.approx(gib, abs=0.01)


@pytest.mark.parametrize(
    ("key", "domain", "node"),
    [("h100-sxm", 8, 8), ("gb200", 72, 4), ("h100-nvl", 2, 8), ("gh200-96", 1, 1), ("l4", 8, 8), ("a40", 2, 8)],
)
def test_what_joins_them(key, domain, node):
    assert (CATALOG[key].hardware.domain, CATALOG[key].hardware.accelerators_per_node) == (domain, node)


@pytest.mark.parametrize(
    ("key", "weights"),
    [
        ("v100-16", None),
        ("a100-80", Scheme.INT8),
        ("l4", Scheme.FP8),
        ("h100-sxm", Scheme.FP8),
        ("b200", Scheme.NVFP4),
        ("mi300x", Scheme.FP8),
        ("mi355x", Scheme.MXFP4),
    ],
)
def test_the_standard_is_what_the_generation_computes_in(key, weights):
    assert CATALOG[key].standard_weights is weights


@pytest.mark.parametrize("key", NAMES)
def test_nodes_are_recognised_by_the_vendors_label(key):
    entry = CATALOG[key]
    label = {"nvidia": "nvidia.com/gpu.product", "amd": "amd.com/gpu.product-name"}.get(entry.vendor)
    assert set(entry.node_labels) == ({label} if label else set())
    assert entry.resource_name.startswith(
        {"nvidia": "nvidia.com/", "amd": "amd.com/", "intel": "gpu.intel.com/"}[entry.vendor]
    )


def test_no_two_kinds_share_a_label():
    labels = [tuple(entry.node_labels.items()) for entry in CATALOG.values() if entry.node_labels]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("key", ["gb200", "gb300", "mi325x", "mi355x"])
def test_a_cost_of_ownership_is_no_price_but_is_told(key):
    assert CATALOG[key].hardware.price_per_hour is None
    assert "total cost" in CATALOG[key].note
