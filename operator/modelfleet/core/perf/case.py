"""One replica as the performance model sees it: a model on accelerators of one kind, its layout and settings. Pure."""

from dataclasses import dataclass

from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts
from modelfleet.core.perf.workload import EngineSetup


@dataclass(frozen=True, kw_only=True)
class Case:
    """What `memory_use`, `step_time`, `predict` and `find_knee` are asked about."""

    facts: ModelFacts
    hardware: Hardware
    layout: Layout
    setup: EngineSetup


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A promise as arithmetic: `share` of the requests (0 to 1) are inside both times at once."""

    ttft_s: float
    tpot_s: float
    share: float
