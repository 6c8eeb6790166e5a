"""Cases that the tests of memory share."""

from dataclasses import replace
from typing import Any

from modelfleet.core.catalog import CATALOG
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.known import known
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.workload import EngineSetup

GIB = 2**30


def case(name: str, layout: str = "tp1", hardware: str = "h100-sxm", **setup: Any) -> Case:
    """A model known by name on a kind of accelerator of the catalogue, on vLLM 0.32 unless told."""
    facts = known(name)
    assert facts is not None
    return Case(
        facts=facts,
        hardware=CATALOG[hardware].hardware,
        layout=Layout.parse(layout),
        setup=EngineSetup(**{"version": "0.32.0", "weights": facts.native, **setup}),
    )


def with_memory(one: Case, gib: float) -> Case:
    """The same on an accelerator with other memory."""
    return replace(one, hardware=replace(one.hardware, memory_bytes=int(gib * GIB)))
