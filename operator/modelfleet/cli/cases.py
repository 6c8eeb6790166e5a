"""From a table's row to the case that the performance model is asked about."""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from modelfleet.cli.fields import (
    MOST_REQUESTS,
    MOST_TOKENS,
    Cells,
    RowError,
    clipped,
    number,
    required,
    share,
    text,
    whole,
)
from modelfleet.cli.models import ModelError
from modelfleet.core.catalog import CATALOG, CatalogEntry
from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts, Scheme
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import with_context_that_fits
from modelfleet.core.perf.memory_version import is_numbered
from modelfleet.core.perf.numbers import usual_kv_scheme
from modelfleet.core.perf.workload import EngineSetup, Lengths, Load

Lookup = Callable[[str], ModelFacts]

ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "trt-llm": "trtllm", "tensorrt-llm": "trtllm"}
_SCHEMES = {
    "bf16": Scheme.BF16,
    "bfloat16": Scheme.BF16,
    "fp16": Scheme.FP16,
    "float16": Scheme.FP16,
    "half": Scheme.FP16,
    "fp8": Scheme.FP8,
    "fp8_block": Scheme.FP8,
    "fp8_e4m3": Scheme.FP8,
    "fp8_e5m2": Scheme.FP8,
    "int8": Scheme.INT8,
    "w8a8": Scheme.INT8,
    "int4": Scheme.INT4,
    "awq": Scheme.INT4,
    "gptq": Scheme.INT4,
    "w4a16": Scheme.INT4,
    "mxfp4": Scheme.MXFP4,
    "nvfp4": Scheme.NVFP4,
}
_KV_SCHEMES = (Scheme.BF16, Scheme.FP16, Scheme.FP8, Scheme.INT8, Scheme.NVFP4)
_MOST_DEGREE = 4096
DEFAULT_INPUT_TOKENS = 1024
DEFAULT_OUTPUT_TOKENS = 256
DEFAULT_CONCURRENCY = 1


@dataclass(frozen=True)
class Asked:
    """A row as the performance model is asked, and what was assumed where the row says nothing."""

    case: Case
    lengths: Lengths
    load: Load
    notes: tuple[str, ...] = ()


def model_of(cells: Cells, lookup: Lookup) -> ModelFacts:
    """The facts of the row's model."""
    try:
        return lookup(required(cells, "model", "the path of a config.json or a known name"))
    except ModelError as error:
        raise RowError(f"model: {error}") from error


def hardware_of(cells: Cells) -> Hardware:
    """The accelerator of the row's class, a key of the catalogue."""
    return class_entry(required(cells, "class", "a key of `modelfleet catalog`, such as h100-sxm")).hardware


def class_entry(name: str) -> CatalogEntry:
    """The catalogue's entry of a class. Raises RowError with the nearest names."""
    key = name.strip().lower().replace("_", "-")
    entry = CATALOG.get(key) or CATALOG.get(key.removesuffix("-sxm"))  # an H200 SXM is plainly an H200
    if entry is None:
        near = difflib.get_close_matches(key, CATALOG, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "`modelfleet catalog` lists them"
        raise RowError(f"class: {clipped(name)} is not in the catalogue; {hint}")
    return entry


def layout_of(cells: Cells, facts: ModelFacts, case: tuple[str, Hardware], notes: list[str]) -> Layout:
    """The degrees of parallelism that the row names for an engine and an accelerator; absent ones are 1."""
    engine, hardware = case
    tensor, pipeline, data = (whole(cells, column, _MOST_DEGREE) or 1 for column in ("tp", "pp", "dp"))
    spread = tensor * data
    degree = _expert_degree(cells, spread, notes)
    if degree not in (1, spread) and not spreads_partly(degree, spread, engine):
        raise RowError(f"ep: experts are spread over tensor × data, so ep is 1 or {spread} here, not {degree}")
    if degree * degree == spread > hardware.domain and 1 in (tensor, data) and engine != "vllm":
        # Published tables label N accelerators as N × N where experts are cut and spread; no fabric joins so many.
        tensor, data = (degree, 1) if data == 1 else (1, degree)
        notes.append(f"{spread} accelerators with ep {degree} read as {degree}: the fabric joins {hardware.domain}")
    elif degree not in (1, spread):
        notes.append(f"experts over {degree} of {spread} predicted as over all")
    layout = Layout(tensor, pipeline, data, expert=degree > 1)
    check_layout(layout, facts)
    return layout


def _expert_degree(cells: Cells, spread: int, notes: list[str]) -> int:
    found = text(cells, "ep").lower()
    if found in ("on", "true", "yes"):
        return spread
    if found in ("0", "0.0"):  # published tables write so where nothing is spread
        notes.append("ep 0 read as 1: no expert parallelism")
        return 1
    if found in ("off", "false", "no"):
        return 1
    return whole(cells, "ep", _MOST_DEGREE) or 1


def spreads_partly(degree: int, spread: int, engine: str) -> bool:
    """Whether the engine can spread experts over `degree` of `spread` accelerators, and cut them over the rest.

    vLLM cannot. The others can; the performance model takes that as a spread over all, which holds as many bytes.
    """
    return engine != "vllm" and spread % degree == 0


def check_layout(layout: Layout, facts: ModelFacts) -> None:
    """Raises RowError if no engine can spread the model like that."""
    for part in facts.attention:
        if part.heads % layout.tensor:
            fitting = [degree for degree in range(1, min(part.heads, 64) + 1) if part.heads % degree == 0]
            raise RowError(
                f"tp: {part.heads} attention heads of {facts.name} cannot be shared out over {layout.tensor}; write"
                f" one of {', '.join(map(str, fitting))}"
            )
    if layout.pipeline > facts.layers:
        raise RowError(f"pp: {facts.name} has {facts.layers} layers; write at most {facts.layers}")
    if layout.expert and not facts.is_mixture:
        raise RowError(f"ep: {facts.name} has no experts to spread; write 1")


def scheme_of(cells: Cells, facts: ModelFacts) -> Scheme:
    """The scheme of the weights: what `precision` says in one of its usual spellings, else the model's own."""
    found = text(cells, "precision").lower()
    word = re.sub(r"[\s_-]*native$", "", found).replace("-", "_")
    if word in ("", "auto"):
        return facts.native
    if word == "fp4":
        return Scheme.MXFP4 if facts.native is Scheme.MXFP4 else Scheme.NVFP4
    if word not in _SCHEMES:
        raise RowError(f"precision: {clipped(found)} is not known; write {', '.join(Scheme)}, fp4 or leave it empty")
    return _SCHEMES[word]


def _kv_scheme(cells: Cells, weights: Scheme, notes: list[str]) -> Scheme:
    found = text(cells, "kv_precision").lower().replace("-", "_")
    if not found:
        usual = usual_kv_scheme(weights)
        notes += ["fp8 KV cache assumed"] if usual is Scheme.FP8 else []
        return usual
    if found == "auto":
        return Scheme.BF16
    scheme = _SCHEMES.get(found)
    if scheme not in _KV_SCHEMES:
        words = ", ".join(_KV_SCHEMES)
        raise RowError(f"kv_precision: {clipped(found)} is not a KV cache's; write {words} or leave it empty")
    return scheme


def check_engine(engine: str, hardware: Hardware) -> None:
    """Raises RowError if the engine does not run on the accelerator."""
    engines = CATALOG[hardware.name].engines
    if engine not in engines:
        raise RowError(f"engine: {engine} does not run on {hardware.name}; write {' or '.join(engines)}")


def _version(cells: Cells, engine: str, notes: list[str]) -> str:
    """The engine's version. A build without a number, such as a nightly one, counts as unknown, and is noted."""
    version = text(cells, "engine_version").lower().removeprefix("v")
    if version and engine == "vllm" and not is_numbered(version):
        notes.append(f"engine_version {clipped(version)} has no number such as 0.32.1 and counts as unknown")
    return version


def engine_of(cells: Cells, notes: list[str]) -> str:
    """The engine's name; a longer name that holds a known one, such as `nim (trtllm)`, is noted."""
    named = text(cells, "engine").lower() or "vllm"
    if named in ENGINES:
        return ENGINES[named]
    meant = {engine for word, engine in ENGINES.items() if word in named}
    if len(meant) != 1:
        raise RowError(f"engine: {clipped(named)} is not known; write vllm, sglang or trtllm")
    (engine,) = meant
    notes.append(f"{clipped(named)} taken as {engine}")
    return engine


def setup_of(cells: Cells, facts: ModelFacts, notes: list[str]) -> EngineSetup:
    """What the engine is started with; absent settings are the engine's own defaults."""
    fraction = share(cells, "memory_fraction")
    defaults = EngineSetup()
    weights = scheme_of(cells, facts)
    engine = engine_of(cells, notes)
    return EngineSetup(
        engine=engine,
        version=_version(cells, engine, notes),
        weights=weights,
        kv=_kv_scheme(cells, weights, notes),
        memory_fraction=defaults.memory_fraction if fraction is None else fraction,
        token_budget=whole(cells, "token_budget", MOST_TOKENS),
        sequence_cap=whole(cells, "sequence_cap", MOST_REQUESTS),
        context_limit_tokens=_context_limit(cells, facts),
    )


def _context_limit(cells: Cells, facts: ModelFacts) -> int | None:
    limit = whole(cells, "context_limit", MOST_TOKENS)
    longest = facts.max_context_tokens
    if limit is not None and limit > longest:
        raise RowError(
            f"context_limit: is {limit:,}, and {facts.name} has a context of {longest:,} tokens; write at most"
            f" {longest}"
        )
    return limit


def lengths_of(cells: Cells, setup: EngineSetup, notes: list[str]) -> Lengths:
    """The lengths of the row's requests; usual ones, noted, where it has none."""
    given = number(cells, "input_tokens", MOST_TOKENS), number(cells, "output_tokens", MOST_TOKENS)
    input_tokens, output_tokens = given[0] or DEFAULT_INPUT_TOKENS, given[1] or DEFAULT_OUTPUT_TOKENS
    notes += [f"{DEFAULT_INPUT_TOKENS} input tokens assumed"] if given[0] is None else []
    notes += [f"{DEFAULT_OUTPUT_TOKENS} output tokens assumed"] if given[1] is None else []
    limit = setup.context_limit_tokens
    if limit and input_tokens + output_tokens > limit:
        raise RowError(
            f"context_limit: {input_tokens:g} input and {output_tokens:g} output tokens are more than {limit};"
            f" write at least {input_tokens + output_tokens:g}"
        )
    return Lengths(input_tokens=input_tokens, output_tokens=output_tokens)


def _load(cells: Cells, notes: list[str]) -> Load:
    concurrency = number(cells, "concurrency", MOST_REQUESTS)
    rate = number(cells, "request_rate", MOST_REQUESTS)
    if concurrency is not None and rate is not None:
        raise RowError("request_rate: is given beside concurrency; write one of the two and leave the other empty")
    if rate is not None:
        return Load(requests_per_s=rate)
    notes += ["concurrency 1 assumed"] if concurrency is None else []
    return Load(concurrency=concurrency or DEFAULT_CONCURRENCY)


def asked(cells: Cells, lookup: Lookup) -> Asked:
    """The row as a question to the performance model. Raises RowError: column, why, and what would work."""
    facts = model_of(cells, lookup)
    hardware = hardware_of(cells)
    notes: list[str] = []
    setup = setup_of(cells, facts, notes)
    check_engine(setup.engine, hardware)
    layout = layout_of(cells, facts, (setup.engine, hardware), notes)
    lengths = lengths_of(cells, setup, notes)
    load = _load(cells, notes)
    case = with_context_that_fits(Case(facts=facts, hardware=hardware, layout=layout, setup=setup))
    limit = case.setup.context_limit_tokens
    if limit != setup.context_limit_tokens:
        notes.append(f"context limited to {limit:,} tokens, the longest of which one fits")
    return Asked(case, lengths, load, tuple(notes))
