"""What was measured of one case, as corrections of what is predicted of it. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Factors on the predicted times of one case, with the number of measurements behind each; 1 is no correction."""

    prefill: float = 1.0
    decode: float = 1.0
    overhead: float = 1.0
    prefill_samples: int = 0
    decode_samples: int = 0
    kv_tokens: int | None = None
    """What the engine reported; replaces the predicted room."""

    @property
    def samples(self) -> int:
        """Measurements behind the profile."""
        return max(self.prefill_samples, self.decode_samples)
