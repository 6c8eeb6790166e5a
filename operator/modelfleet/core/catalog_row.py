"""One line of the catalogue as datasheets and clouds state it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

AWS = "aws/karpenter-provider-aws zz_generated pricing (us-east-1 on demand, 2026-08-21)"
AZURE = "Azure/karpenter-provider-azure zz_generated pricing (cheapest region seen)"
RUNPOD = "docs.runpod.io/serverless/pricing (active worker, a second × 3600)"
INFERENCEX_SPECS = "SemiAnalysisAI/InferenceX-app packages/app/src/lib/gpu-specs.ts"
INFERENCEX_COST = "SemiAnalysisAI/InferenceX-app packages/app/src/lib/constants.ts (a provider's total cost)"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind of accelerator. Units are those of datasheets; `catalog` turns them into bytes and operations."""

    title: str
    generation: str
    memory_gib: float
    """What the engine is told, not what is printed on the box."""
    bandwidth_gb_per_s: float
    tflops: Mapping[str, float]
    """Dense, by precision. `bf16` is float16's on chips without bfloat16."""
    fabric: tuple[str, float, int]
    """What joins accelerators, GB a second of one direction, and how many it joins. Boards without one are joined by
    PCIe, as many as a node has."""
    node: int
    """Accelerators in the usual node."""
    network_gb_per_s: float = 0.0
    """Of one accelerator between nodes in the vendor's reference node (DGX, HGX, NVL72; from memory)."""
    capability: tuple[int, int] | None = None
    product: str = ""
    """How the vendor's node labeller names it."""
    price: str | None = None
    """US dollars an hour of one accelerator: a cloud's list price without a commitment. A cost of ownership is no such
    price and stands in the note, so that classes are compared by one kind of price."""
    price_basis: str = ""
    memory_source: str
    figures_source: str
    price_source: str = ""
    note: str = ""
