"""Which known model a name means: letter case, vendors and the usual endings do not matter. Pure."""

import re

_TRAINED = frozenset({"instruct", "it", "chat", "hf", "base", "thinking", "reasoning", "preview"})
_STORED = frozenset(
    {"bf16", "fp16", "fp8", "nvfp4", "fp4", "mxfp4", "awq", "gptq", "int4", "int8", "w8a8", "w4a16", "4bit", "8bit"}
    | {"dynamic", "kv", "quantized", "block"}
)
_OPTIONAL = _TRAINED | _STORED
"""Endings that change how the model was trained or how weights are stored, and no size."""
_NUMBERED = re.compile(r"[a-z]+(?=\d+(?:\.\d+)?$)")


def tokens(name: str) -> frozenset[str]:
    """The parts of a name, without the vendor: `meta-llama/Llama-3.1-8B` and `llama 3.1 8b` have the same."""
    short = name.strip().lower().rstrip("/").rpartition("/")[2].removeprefix("meta-")
    parts: list[str] = []
    for word in re.split(r"[\s_\-:()]+", short):
        letters = None if word in _OPTIONAL else _NUMBERED.match(word)  # qwen3 is two parts, fp8 is one
        parts += [letters[0], word[letters.end() :]] if letters else [word]
    return frozenset(part for part in parts if part and part != "v")


def is_optional(token: str) -> bool:
    """Whether a part of a name says nothing about sizes; a date such as 0528 or 2507 does not."""
    return token in _OPTIONAL or bool(re.fullmatch(r"\d{4}|\d{8}", token))


def rank(known: frozenset[str], asked: frozenset[str]) -> tuple[int, int] | None:
    """How well a known name fits, greater is better; None where it names something else."""
    if not known - _TRAINED <= asked or not all(is_optional(token) for token in asked - known):
        return None
    return len(known & asked), -len(known - asked)
