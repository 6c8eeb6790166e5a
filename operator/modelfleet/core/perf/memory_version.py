"""What about memory changed between versions of the engine. Pure."""

import re
from dataclasses import dataclass
from functools import cache

from modelfleet.core.model.facts import ModelFacts

_FIRST = {
    "Gemma4": (0, 19),
    "Qwen3_5": (0, 17),
    "GlmMoeDsa": (0, 16),
    "KimiK25": (0, 15),
    "MiniMaxM2": (0, 11),
    "DeepseekV32": (0, 11),
    "GptOss": (0, 10),
    "Qwen3Next": (0, 10),
    "Llama4": (0, 8),
    "Qwen3": (0, 8),
}
"""First version with an architecture, by how its name begins; from release notes, from memory."""
_OTHERS = (0, 19)


@cache
def _number(version: str) -> tuple[int, int] | None:
    match = re.search(r"(\d{1,9})\.(\d{1,9})", version)
    return (int(match[1]), int(match[2])) if match else None


def is_numbered(version: str) -> bool:
    """Whether a version has a number that can be read: `0.15.1` and `about 0.11` have, `nightly` has none."""
    return _number(version) is not None


@dataclass(frozen=True)
class Era:
    """One version of vLLM, without its patch level. `number` None is not known.

    What is not known counts as whatever needs more memory, so that no memory is promised that is not there.
    """

    number: tuple[int, int] | None

    @classmethod
    def of(cls, version: str, architecture: str = "") -> "Era":
        """From a version as engines and people write it: `0.15.1`, `v0.11.0`, `about 0.11`, `0.2.x`. Without one it is
        the first version that runs the architecture, where that is known."""
        return cls(_number(version) or next((at for part, at in _FIRST.items() if architecture.startswith(part)), None))

    @classmethod
    def of_engine(cls, engine: str, version: str, architecture: str = "") -> "Era":
        """Other engines number their versions in another way; they count as a new vLLM, which has fewest copies."""
        return cls.of(version, architecture) if engine.lower().startswith("vllm") else cls(_OTHERS)

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
    def samples_in_place(self) -> bool:
        """Whether the sampler makes few copies of the logits: since 0.16. At 0.15.1 it did not; at 0.19 it did."""
        return self.number is not None and self.number >= (0, 16)

    @property
    def reserves_more(self) -> bool:
        """Whether more is held beside tensors: since 0.15, as the rows of 0.15.1 and newer show."""
        return self.number is not None and self.number >= (0, 15)

    @property
    def batches_in_flight(self) -> int:
        """Batches whose tokens a window keeps besides its own: two under asynchronous scheduling, since 0.21."""
        return 1 if self.before(0, 21) else 2
