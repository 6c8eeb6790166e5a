"""One kind of accelerator as arithmetic sees it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Facts of one accelerator and of what joins it to others. Bandwidths are bytes a second, of one direction.

    `flops` is dense arithmetic by precision (`bf16`, `fp8`, `fp4`, `int8`), operations a second, absent where the chip
    has no such unit. `domain` is how many accelerators the inner fabric joins; tensor parallelism stays inside.
    """

    name: str
    memory_bytes: int
    """What the engine is told that the device has, less than what is printed on the box."""
    memory_bytes_per_s: float
    flops: Mapping[str, float]
    compute_capability: tuple[int, int] | None = None
    accelerators_per_node: int = 8
    domain: int = 8
    fabric_bytes_per_s: float
    network_bytes_per_s: float = 0.0
    """Between nodes, for one accelerator; 0 is not known."""
    price_per_hour: Decimal | None = None
    currency: str = "USD"
