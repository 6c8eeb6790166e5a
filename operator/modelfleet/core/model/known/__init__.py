"""Models known by name, so that a plan needs no file. The figures are public; `source` of each says where. Pure.

A known model is a small config.json read by `read_config`: there is one way from sizes to facts.
"""

from difflib import get_close_matches
from functools import cache

from modelfleet.core.model.config import read_config
from modelfleet.core.model.facts import Attention, ModelFacts
from modelfleet.core.model.known import deepseek, entry, meta, others, qwen
from modelfleet.core.model.known.entry import Config, KnownModel
from modelfleet.core.model.known.names import rank, tokens

KNOWN: dict[str, KnownModel] = {**meta.MODELS, **qwen.MODELS, **deepseek.MODELS, **others.MODELS}
"""By repository name without the vendor, which is kept only where vendors' checkpoints differ."""

_NAMES = {name: (model, tokens(name)) for main, model in KNOWN.items() for name in (main, *model.also)}
_EXACT = {name.lower(): model for name, (model, _) in _NAMES.items()}
_SCHEMES = {
    "fp8": entry.FP8,
    "nvfp4": entry.NVFP4,
    "fp4": entry.NVFP4,
    "awq": entry.INT4,
    "gptq": entry.INT4,
    "int4": entry.INT4,
    "w4a16": entry.INT4,
    "4bit": entry.INT4,
    "int8": entry.INT8,
    "w8a8": entry.INT8,
    "8bit": entry.INT8,
}


@cache
def known(name: str) -> ModelFacts | None:
    """The facts of a model that the name means, or None where none or several do.

    An ending such as FP8, NVFP4 or AWQ says how the checkpoint is stored, BF16 that it is not quantized.
    """
    found = _find(name)
    if found is None:
        return None
    facts = read_config(found.config, name=name.strip(), source=f"known by name: {found.source}")
    scheme = _scheme(tokens(name), found.config, facts)
    if scheme is None:
        return facts
    return read_config(scheme, name=name.strip(), source=f"known by name: {found.source}")


def nearest(name: str, count: int = 3) -> tuple[str, ...]:
    """Known names like the one asked for, nearest first; for messages."""
    short = name.strip().lower().rpartition("/")[2]
    by_lower = {listed.lower(): listed for listed in _NAMES}
    return tuple(by_lower[match] for match in get_close_matches(short, by_lower, n=count, cutoff=0.5))


def _find(name: str) -> KnownModel | None:
    lower = name.strip().lower()
    exact = _EXACT.get(lower) or _EXACT.get(lower.rpartition("/")[2])
    if exact:
        return exact
    asked = tokens(name)
    ranks = [(rank(parts, asked), model) for listed, (model, parts) in _NAMES.items() if "/" not in listed]
    fitting = [(fit, model) for fit, model in ranks if fit is not None]
    best = max((fit for fit, _ in fitting), default=None)
    winners = [model for fit, model in fitting if fit == best]
    return winners[0] if winners and all(winner is winners[0] for winner in winners) else None


def _scheme(asked: frozenset[str], config: Config, facts: ModelFacts) -> Config | None:
    """The config with the scheme that the name's ending states, or None where it states none of its own."""
    stored = (config, config.get("text_config") or {})
    if asked & {"bf16", "fp16"}:
        bare = {key: value for key, value in config.items() if key != "quantization_config"}
        if "text_config" in config:
            text = config["text_config"].items()
            bare["text_config"] = {key: value for key, value in text if key != "quantization_config"}
        return bare
    stated = next((scheme for ending, scheme in _SCHEMES.items() if ending in asked), None)
    if stated is None or (stated is entry.FP8 and any("quantization_config" in part for part in stored)):
        return None
    if stated is entry.NVFP4 and any(part.kind in _COMPRESSED for part in facts.attention):
        stated = entry.NVFP4_NOT_ATTENTION
    return {**config, "quantization_config": stated}


_COMPRESSED = (Attention.LATENT, Attention.LATENT_SPARSE)
"""NVIDIA's NVFP4 checkpoints of DeepSeek and Kimi leave attention in 16 bit."""
