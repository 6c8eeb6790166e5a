"""How one replica is spread over accelerators. Pure."""

import re
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, order=True)
class Layout:
    """Degrees of parallelism of one replica. On vLLM expert parallelism spans tensor × data, so it is on or off."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False

    @property
    def accelerators(self) -> int:
        """Accelerators of one replica."""
        return self.tensor * self.pipeline * self.data

    def nodes(self, per_node: int) -> int:
        """Nodes that a replica takes where one has `per_node` accelerators: as few as hold an equal part each.

        A part holds whole tensor-parallel groups; only where one is larger than a node (the fabric must join nodes
        then) it goes over whole nodes. Data-parallel ranks are whole in a part, or evenly cut, as vLLM asks for.
        """
        total = self.accelerators
        if total <= per_node:
            return 1
        unit = min(self.tensor, per_node)
        counts = (n for n in range(-(-total // per_node), total + 1) if total % n == 0 and (total // n) % unit == 0)
        return next((n for n in counts if self.data % n == 0 or n % self.data == 0), -(-total // per_node))

    @property
    def expert_degree(self) -> int:
        """Accelerators that whole experts are spread over; 1 without expert parallelism."""
        return self.tensor * self.data if self.expert else 1

    def __str__(self) -> str:
        """In one word, as status and commands say it: `tp8`, `tp8-pp2`, `tp4-dp4-ep16`."""
        parts = [f"tp{self.tensor}"]
        parts += [f"pp{self.pipeline}"] if self.pipeline > 1 else []
        parts += [f"dp{self.data}"] if self.data > 1 else []
        parts += [f"ep{self.expert_degree}"] if self.expert else []
        return "-".join(parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The layout of a word such as `tp4-dp4-ep16`; ValueError says what would be one.

        An `ep` that is neither 1 nor tensor × data is refused: vLLM has no such layout.
        """
        degrees = {"tp": 1, "pp": 1, "dp": 1, "ep": 1}
        seen: set[str] = set()
        for part in text.strip().lower().split("-"):
            match = re.fullmatch(r"(tp|pp|dp|ep)([1-9][0-9]{0,3})", part)
            if not match:
                raise ValueError(f"{text!r} is not a layout: write parts such as tp8, tp8-pp2 or tp4-dp4-ep16")
            if match[1] in seen:
                raise ValueError(f"{text!r} names {match[1]} twice: write each degree once")
            seen.add(match[1])
            degrees[match[1]] = int(match[2])
        spread = degrees["tp"] * degrees["dp"]
        if degrees["ep"] not in (1, spread):
            raise ValueError(f"{text!r}: expert parallelism spans tensor × data, so ep is 1 or {spread}")
        return cls(degrees["tp"], degrees["pp"], degrees["dp"], expert=degrees["ep"] > 1)
