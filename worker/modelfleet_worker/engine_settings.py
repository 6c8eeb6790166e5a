"""What a plan's arguments say about the engine's memory. Pure. Names and spellings are those of vLLM 0.32 and 0.33."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

FRACTION = "gpu-memory-utilization"  # of the host's memory where the engine runs on CPU
KV_BYTES = "kv-cache-memory-bytes"
BUDGET = "max-num-batched-tokens"
THRESHOLD = "long-prefill-token-threshold"
_DEFAULT_FRACTION = 0.92  # vLLM's own since 0.21
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)([kmgtKMGT]?)i?[bB]?")
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12} | {
    unit: 1 << shift for unit, shift in (("K", 10), ("M", 20), ("G", 30), ("T", 40))
}


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """`fraction` is the share of the memory that the engine may take, unless `kv_bytes` says the KV cache's size.
    `budget_tokens` (None: the engine's default) bounds a step, `threshold_tokens` the part of one long prompt in it.
    `devices` is how many accelerators one engine uses, on all of its nodes, and `tensor` how many of them one node has
    at least. `stated`: the plan says the fraction or the bytes itself."""

    fraction: float
    stated: bool
    kv_bytes: int | None
    budget_tokens: int | None
    threshold_tokens: int | None
    context_tokens: int | None
    sequences: int | None
    chunked: bool
    tensor: int
    devices: int


def engine_settings(args: Sequence[str]) -> EngineSettings:
    """The settings in `--flag=value` arguments. What cannot be read counts as not given: the engine will say so."""
    flags = dict(_flag(arg) for arg in args if arg.startswith("--"))
    tensor, *others = (_size(flags.get(f"{kind}-parallel-size", "1")) or 1 for kind in ("tensor", "pipeline", "data"))
    fraction = _fraction(flags.get(FRACTION, ""))
    return EngineSettings(
        fraction=_DEFAULT_FRACTION if fraction is None else fraction,
        stated=fraction is not None or KV_BYTES in flags,
        kv_bytes=_size(flags.get(KV_BYTES, "") or flags.get("kv-cache-memory", "")),
        budget_tokens=_size(flags.get(BUDGET, "")),
        threshold_tokens=_size(flags.get(THRESHOLD, "")),
        context_tokens=_size(flags.get("max-model-len", "")),
        sequences=_size(flags.get("max-num-seqs", "")),
        chunked="no-enable-chunked-prefill" not in flags,
        tensor=tensor,
        devices=tensor * others[0] * others[1],
    )


def _flag(arg: str) -> tuple[str, str]:
    name, _, value = arg.removeprefix("--").partition("=")
    return name.replace("_", "-"), value


def _size(text: str) -> int | None:
    """Units as vLLM reads them: capital letters are powers of 1024, small ones of 1000."""
    found = _SIZE.fullmatch(text)
    return int(float(found[1]) * _SCALE[found[2]]) if found else None


def _fraction(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number <= 1 else None
