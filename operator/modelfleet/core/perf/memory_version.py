"""What about memory changed between versions of the engine. Pure."""

import re
from dataclasses import dataclass

from modelfleet.core.model.facts import ModelFacts


@dataclass(frozen=True)
class Era:
    """One range of vLLM versions. Unknown versions count as the newest: new fleets run new engines."""

    number: tuple[int, int] | None

    @classmethod
    def of(cls, version: str) -> "Era":
        """From a version as engines and people write it: `0.15.1`, `v0.11.0`, `about 0.11`, `0.2.x`."""
        match = re.search(r"(\d+)\.(\d+)", version)
        return cls((int(match[1]), int(match[2])) if match else None)

    def before(self, major: int, minor: int) -> bool:
        """Whether the version is known and older."""
        return self.number is not None and self.number < (major, minor)

    def keeps_windows(self, facts: ModelFacts) -> bool:
        """Whether layers with a window keep only the window.

        Since 0.10 (the hybrid cache manager); Llama 4's chunks not before 0.32, where their allowance is read in the
        source (VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE); 0.15.1 kept all, as blocks reported for
        Llama-4-Scout show.
        """
        if facts.architecture.startswith("Llama4"):
            return not self.before(0, 32)
        return not self.before(0, 10)

    @property
    def batches_in_flight(self) -> int:
        """Batches whose tokens a window keeps besides its own: two under asynchronous scheduling, since 0.21."""
        return 1 if self.before(0, 21) else 2
