"""A request as the simulator sees it, and what became of it."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Request:
    """`arrival_s` counts from the start of the trace; `prefix_tokens` of the input are the same in most requests."""

    arrival_s: float
    input_tokens: int
    output_tokens: int
    prefix_tokens: int = 0


class End(StrEnum):
    """How a request ended."""

    FINISHED = "finished"
    REFUSED = "refused"
    """Over the engine's admission limits: 503."""
    FAILED = "failed"
    """No replica was there for it, or its replica died."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request. The times are 0 where it did not finish. `replica` is -1 where none took it."""

    request: Request
    end: End
    ended_s: float
    ttft_s: float = 0.0
    tpot_s: float = 0.0
    replica: int = -1

    def inside(self, ttft_s: float, tpot_s: float) -> bool:
        """Whether it kept the promise; one that did not finish did not."""
        return self.end is End.FINISHED and self.ttft_s <= ttft_s and self.tpot_s <= tpot_s
