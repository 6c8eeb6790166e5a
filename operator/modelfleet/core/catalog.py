"""The catalogue of accelerators: facts of each kind with their sources, keyed as classes are named. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from modelfleet.core.catalog_boards import BOARDS
from modelfleet.core.catalog_modules import MODULES
from modelfleet.core.catalog_row import Row
from modelfleet.core.hardware import Hardware
from modelfleet.core.model.facts import Scheme


@dataclass(frozen=True, kw_only=True)
class CatalogEntry:
    """One kind of accelerator: what arithmetic needs, how nodes with it are recognised, and where each fact is from."""

    hardware: Hardware
    title: str
    vendor: str
    generation: str
    fabric: str
    resource_name: str
    """What nodes offer it as."""
    node_labels: Mapping[str, str]
    """A node selector that the vendor's labeller makes true; empty where none is known."""
    standard_weights: Scheme | None
    """What everything on this kind is stored in unless an exception brings evidence: the narrowest that the chip
    computes in, as vLLM's kernels have it. None is no standard."""
    standard_kv: Scheme | None
    engines: tuple[str, ...]
    price_basis: str
    sources: Mapping[str, str]
    """Where memory, figures, price, network and labels come from."""
    note: str = ""

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """NVIDIA's compute capability."""
        return self.hardware.compute_capability


_STANDARDS: Mapping[str, tuple[Scheme | None, Scheme | None]] = {
    "volta": (None, None),
    "turing": (Scheme.INT8, None),
    "ampere": (Scheme.INT8, None),
    "ada": (Scheme.FP8, None),
    "hopper": (Scheme.FP8, None),
    "blackwell": (Scheme.NVFP4, Scheme.FP8),
    "blackwell-ultra": (Scheme.NVFP4, Scheme.FP8),
    "cdna3": (Scheme.FP8, None),
    "cdna4": (Scheme.MXFP4, Scheme.FP8),
    "battlemage": (None, None),
}
"""By generation: weights and KV cache. INT8 has kernels up to Hopper, FP8 from Ada on, NVFP4 from Blackwell on; the
fp8 KV cache is what NVIDIA's NVFP4 checkpoints are calibrated for (kv_cache_quant_algo)."""

_VENDORS = {
    "nvidia": ("nvidia.com/gpu", "nvidia.com/gpu.product", ("vllm", "sglang", "trtllm")),
    "amd": ("amd.com/gpu", "amd.com/gpu.product-name", ("vllm", "sglang")),
    "intel": ("gpu.intel.com/xe", "", ("vllm",)),
}
"""By vendor: the resource of its device plugin, the label of its node labeller, the engines that run on it."""

_VENDOR_OF = {"cdna3": "amd", "cdna4": "amd", "battlemage": "intel"}


def _entry(key: str, row: Row) -> CatalogEntry:
    vendor = _VENDOR_OF.get(row.generation, "nvidia")
    resource, label, engines = _VENDORS[vendor]
    weights, kv = _STANDARDS[row.generation]
    fabric, gigabytes, domain = row.fabric
    return CatalogEntry(
        hardware=Hardware(
            name=key,
            memory_bytes=int(row.memory_gib * 2**30),
            memory_bytes_per_s=row.bandwidth_gb_per_s * 1e9,
            flops={precision: teraflops * 1e12 for precision, teraflops in row.tflops.items()},
            compute_capability=row.capability,
            accelerators_per_node=row.node,
            domain=domain,
            fabric_bytes_per_s=gigabytes * 1e9,
            network_bytes_per_s=row.network_gb_per_s * 1e9,
            price_per_hour=Decimal(row.price) if row.price else None,
        ),
        title=row.title,
        vendor=vendor,
        generation=row.generation,
        fabric=fabric,
        resource_name=resource,
        node_labels={label: row.product} if label and row.product else {},
        standard_weights=weights,
        standard_kv=kv,
        engines=engines,
        price_basis=row.price_basis,
        sources=_sources(row),
        note=row.note,
    )


def _sources(row: Row) -> Mapping[str, str]:
    stated = {
        "memory": row.memory_source,
        "figures": row.figures_source,
        "price": row.price_source,
        "network": "the vendor's reference node, from memory" if row.network_gb_per_s else "",
        "labels": "node manifests in public repositories" if row.product else "",
    }
    return {fact: source for fact, source in stated.items() if source}


CATALOG: Mapping[str, CatalogEntry] = {key: _entry(key, row) for key, row in (BOARDS | MODULES).items()}
"""By key, as `AcceleratorClass` names and `modelfleet plan --class` use it."""
