"""Rows of kv-capacity-reports.csv as cases of the memory model: what vLLM logged in the field, with its settings."""

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from modelfleet.core.catalog import CATALOG
from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.config import read_config
from modelfleet.core.model.facts import ModelFacts, Scheme
from modelfleet.core.model.known import known
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory_constants import GIB
from modelfleet.core.perf.workload import EngineSetup

DATA = Path(os.environ.get("MODELFLEET_DATA") or Path(__file__).parents[3].parent / "shared" / "data")
MISSING = (
    f"{DATA} is not there: set MODELFLEET_DATA to a folder with kv-capacity-reports.csv (lines that vLLM logged, as "
    "public issues and docs of vllm-project/vllm, vllm-project/recipes and llm-d-incubation/llm-d-planner quote them), "
    "models/ (config.json files of huggingface.co) and vllm_memory_constants.json (llm-d-planner)"
)
_SCHEMES = {
    "bf16": Scheme.BF16,
    "fp16": Scheme.FP16,
    "fp8": Scheme.FP8,
    "mxfp4": Scheme.MXFP4,
    "nvfp4": Scheme.NVFP4,
    "awq int4": Scheme.INT4,
    "gptq int4": Scheme.INT4,
    "int4 (qat) experts": Scheme.INT4,
    "int8 w8a8": Scheme.INT8,
    "gguf q8_0": Scheme.INT8,
}


@dataclass(frozen=True, kw_only=True)
class Report:
    """One row. `tokens` and `kv_bytes` are what vLLM said it had; None is not said."""

    row: str
    case: Case
    group: tuple[str, str, str]
    """Architecture, accelerator, engine: what is left out together."""
    states_fraction: bool
    tokens: int | None
    kv_bytes: float | None
    activation_bytes: float | None
    graphs_bytes: float | None
    """CUDA graphs; a negative figure is what a source's subtraction left over, and is none."""
    started: bool | None
    label: str


@dataclass(frozen=True)
class Skipped:
    """A row that is no case, and why."""

    row: str
    why: str


def read_reports() -> tuple[list[Report], list[Skipped]]:
    """All rows. SystemExit says what is missing where the data is not there."""
    path = DATA / "kv-capacity-reports.csv"
    if not path.exists():
        raise SystemExit(MISSING)
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    read = [_report(row, _implied_bytes(row, rows)) for row in rows]
    reports = [item for item in read if isinstance(item, Report)]
    return reports, [item for item in read if isinstance(item, Skipped)]


def _implied_bytes(row: dict[str, str], rows: list[dict[str, str]]) -> float | None:
    """Memory that two rows of one run imply: the KV that one more share of memory gives. A board's name may be wrong:
    two rows call 139.8 GiB "H20 96GB"."""
    same = ("model", "gpu", "tp", "dp", "max_model_len", "engine_version")
    for other in rows:
        if other["row"] == row["row"] or any(other[key] != row[key] for key in same) or row["total_mem_gib_per_gpu"]:
            continue
        kv, more = (_bytes(one["kv_available_gib_per_gpu"]) for one in (row, other))
        if kv and more and row["gpu_memory_utilization"] != other["gpu_memory_utilization"]:
            return (more - kv) / (float(other["gpu_memory_utilization"]) - float(row["gpu_memory_utilization"]))
    return None


def _report(row: dict[str, str], implied: float | None) -> Report | Skipped:
    facts, hardware = _facts(row), _hardware(row, implied)
    if facts is None:
        return Skipped(row["row"], f"{row['model']} is not a model that can be sized")
    if hardware is None:
        return Skipped(row["row"], "neither the accelerator nor its memory is stated")
    if not row["tp"]:
        return Skipped(row["row"], "the layout is not stated")
    if "decode context parallel" in row["source"] or "non-MLA" in row["model"]:
        return Skipped(row["row"], "the cache is kept in another way than vLLM's default")
    return Report(
        row=row["row"],
        case=_case(row, facts, hardware),
        group=(facts.architecture, row["gpu_key"], row["engine"]),
        states_fraction=bool(row["gpu_memory_utilization"]),
        tokens=_whole(row["kv_tokens_reported"]),
        kv_bytes=_bytes(row["kv_available_gib_per_gpu"]),
        activation_bytes=_bytes(row["activation_peak_gib"]),
        graphs_bytes=graphs if (graphs := _bytes(row["cudagraph_gib"]) or 0.0) > 0 else None,
        started={"yes": True, "no": False}.get(row["fits"]),
        label=f"{row['model']} on {row['gpu']}, vLLM {row['engine_version'] or 'of unstated version'}",
    )


def _case(row: dict[str, str], facts: ModelFacts, hardware: Hardware) -> Case:
    data = _whole(row["dp"]) or 1
    setup = EngineSetup(
        version=row["engine_version"],
        weights=_SCHEMES[row["weight_dtype"]],
        kv=Scheme.FP8 if row["kv_dtype"] == "fp8" else Scheme.BF16,
        memory_fraction=float(row["gpu_memory_utilization"] or 0.9),
        token_budget=_whole(row["max_num_batched_tokens"]),
        sequence_cap=_whole(row["max_num_seqs"]),
        context_limit_tokens=_whole(row["max_model_len"]),
    )
    layout = Layout(int(row["tp"]), _whole(row["pp"]) or 1, data, expert=data > 1 and facts.is_mixture)
    return Case(facts=facts, hardware=hardware, layout=layout, setup=setup)


def _facts(row: dict[str, str]) -> ModelFacts | None:
    facts = known(row["model"])
    if facts is None and row["config_file"]:
        config = json.loads((DATA / "models" / row["config_file"]).read_text())
        facts = read_config(config, name=row["model"], source=row["config_file"])
    return facts


def _hardware(row: dict[str, str], implied: float | None) -> Hardware | None:
    entry = CATALOG.get(row["gpu_key"])
    total = _bytes(row["total_mem_gib_per_gpu"]) or implied
    if total is None:
        return entry.hardware if entry else None
    # A row may state the memory and not the board; then only the memory counts.
    return replace((entry or CATALOG["a6000"]).hardware, memory_bytes=int(total))


def _whole(text: str) -> int | None:
    return int(float(text)) if text else None


def _bytes(gib: str) -> float | None:
    return float(gib) * GIB if gib else None


# Measured by vLLM 0.19 on H100 by architecture, not by model (vllm_memory_constants.json): the usual model of each, of
# which only the vocabulary and the hidden size matter. Mixtral fits no single H100.
_USUAL = {
    "LlamaForCausalLM": ("Llama-3.1-8B", 1),
    "Qwen2ForCausalLM": ("Qwen2.5-7B", 1),
    "Qwen3ForCausalLM": ("Qwen3-14B", 1),
    "Mistral3ForConditionalGeneration": ("Mistral-Small-3.2-24B", 1),
    "DeepseekV2ForCausalLM": ("DeepSeek-V2-Lite", 1),
    "MixtralForCausalLM": ("Mixtral-8x7B-v0.1", 2),
    "Phi3ForCausalLM": ("phi-4", 1),
    "Qwen3MoeForCausalLM": ("Qwen3-30B-A3B", 1),
    "Gemma2ForCausalLM": ("gemma-2-9b", 1),
    "Gemma3ForCausalLM": ("gemma-3-12b", 1),
    "GemmaForCausalLM": ("gemma-7b", 1),
}


def read_activations() -> Iterator[tuple[str, Case, float]]:
    """Architecture, case and measured peak activation in bytes, vLLM 0.19 on H100 with its default limits."""
    stated = json.loads((DATA / "vllm_memory_constants.json").read_text())["activation_profiles"]
    for architecture, (name, tensor) in _USUAL.items():
        facts = known(name)
        assert facts is not None
        setup = EngineSetup(version="0.19.0")
        case = Case(facts=facts, hardware=CATALOG["h100-sxm"].hardware, layout=Layout(tensor), setup=setup)
        yield architecture, case, stated[architecture] * GIB
