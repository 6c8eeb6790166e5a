"""The measured rows that the performance model is fitted on and held to: closed loops of many public benchmarks.

They are read from a folder that is no part of the project; see `DATA` and `missing`.
"""

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelfleet.core.catalog import CATALOG
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts, Scheme
from modelfleet.core.model.known import known
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.numbers import usual_kv_scheme
from modelfleet.core.perf.workload import EngineSetup, Lengths

DATA = Path(os.environ.get("MODELFLEET_DATA", Path(__file__).parents[4] / "shared" / "data"))
"""Where measurements lie: MODELFLEET_DATA, else beside the checkout."""

CLASSES = {"h100_sxm": "h100-sxm", "h200_sxm": "h200", "b200_sxm": "b200", "b300_sxm": "b300"}
_WIDEST = 8
"""Accelerators of the widest layout that counts: wider ones of the source are disaggregated fleets under one label."""


@dataclass(frozen=True)
class Measured:
    """One measured point: means of a closed loop with `concurrency` users."""

    name: str
    architecture: str
    """Models of one architecture count as one: DeepSeek-R1 and V3."""
    accelerator: str
    precision: str
    label: str
    """The layout as the source has it."""
    case: Case
    lengths: Lengths
    concurrency: float
    ttft_s: float
    tpot_s: float

    @property
    def engine(self) -> str:
        """vllm, sglang or trtllm."""
        return self.case.setup.engine

    @property
    def group(self) -> tuple[str, str, str]:
        """Architecture, accelerator, engine: what is calibrated together."""
        return self.architecture, self.accelerator, self.engine


def missing() -> str | None:
    """What to say where the data are not there."""
    if (DATA / "measured" / "silicon_sample.csv").exists():
        return None
    return (
        f"{DATA} has no measurements: set MODELFLEET_DATA; such rows are public in the aiconfigurator-core wheel"
        " (Apache-2.0), in InferenceX' results and in LLMServingSim's validation runs (MIT)"
    )


def silicon() -> list[Measured]:
    """The closed-loop rows of one engine instance, each point once."""
    with (DATA / "measured" / "silicon_sample.csv").open(newline="") as file:
        rows = [row for row in map(_measured, csv.DictReader(file)) if row is not None]
    return list(_once(rows))


def _once(rows: list[Measured]) -> Iterator[Measured]:
    """The source has some points under two labels, and R1's as V3's."""
    seen = set()
    for row in rows:
        key = (row.group, row.precision, row.case.layout, row.lengths, row.concurrency, row.ttft_s, row.tpot_s)
        if key not in seen:
            seen.add(key)
            yield row


def _measured(cells: dict[str, str]) -> Measured | None:
    facts = known(cells["model_path"])
    concurrency = float(cells["silicon_concurrency"] or 0)
    if cells["mode"] != "agg" or facts is None or concurrency <= 0:
        return None
    layout, label = _layout(cells)
    if layout.accelerators > _WIDEST:
        return None
    accelerator = CLASSES.get(cells["system"], cells["system"])
    precision = cells["precision"] or "bf16"
    weights = scheme(precision, facts)
    setup = EngineSetup(
        engine=cells["backend"], version=cells["backend_version"], weights=weights, kv=usual_kv_scheme(weights)
    )
    return Measured(
        name=cells["id"],
        architecture=_architecture(cells["model_path"]),
        accelerator=accelerator,
        precision=precision,
        label=label,
        case=Case(facts=facts, hardware=CATALOG[accelerator].hardware, layout=layout, setup=setup),
        lengths=Lengths(input_tokens=float(cells["isl"]), output_tokens=float(cells["osl"])),
        concurrency=concurrency,
        ttft_s=float(cells["silicon_ttft_ms"]) / 1000,
        tpot_s=float(cells["silicon_tpot_ms"]) / 1000,
    )


def scheme(precision: str, facts: ModelFacts) -> Scheme:
    """The weights' scheme by the source's word."""
    if precision == "fp4":
        return Scheme.MXFP4 if facts.native is Scheme.MXFP4 else Scheme.NVFP4
    return Scheme(precision)


def _architecture(path: str) -> str:
    name = path.rpartition("/")[2]
    for ending in ("-NVFP4", "-FP8", "-Instruct"):
        name = name.removesuffix(ending)
    return "DeepSeek-V3" if name.startswith("DeepSeek") else name


def _layout(cells: dict[str, str]) -> tuple[Layout, str]:
    """The layout that ran, and as the source labels it.

    Two of its labels multiply a degree by itself, and name N × N accelerators for N: moe_tp = moe_ep = N (the same
    figures stand again under N; and N accelerators' cache is what fills), and in vLLM tp = dp = N with ep = N × N.
    """
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    tensor, data, expert_tensor, expert = (int(float(cells[name] or 0)) or 1 for name in names)
    label = f"tp{tensor}-dp{data}-ep{expert}"
    if expert_tensor == expert > 1 and tensor * data == expert * expert_tensor:
        tensor, data = (expert, 1) if data == 1 else (1, expert)
    elif cells["backend"] == "vllm" and tensor == data > 1 and expert == tensor * data:
        data = 1
    return Layout(tensor, 1, data, expert=expert > 1), label
