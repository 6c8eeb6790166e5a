"""What values the engine's flags take, and which flags each known version of vLLM has. Pure data.

Read in the argument parsers of vLLM 0.32.0 and 0.33.0 (`vllm/engine/arg_utils.py`, `vllm/config`, the server's
`cli_args.py`), and held to the installed one by a test.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modelfleet.api.engine_options import SWITCHES, VALUE_FLAGS


@dataclass(frozen=True)
class Form:
    """A kind of value: a pattern of RE2 and Python alike, and the words for what fits."""

    id: str
    pattern: str
    words: str

    def fits(self, value: str) -> bool:
        """Whether `value` is one."""
        return re.fullmatch(self.pattern, value) is not None


_COUNT = Form("counts", "[1-9][0-9]{0,8}", "a whole number of at least 1")
_WHOLE = Form("whole-numbers", "[0-9]{1,9}", "a whole number of at least 0")
_LOGPROBS = Form("logprobs", "-1|[0-9]{1,9}", "a whole number of at least 0, or -1 for all")
_SIZE = Form(
    "sizes", "[0-9]{1,15}([.][0-9]{1,6})?[kKmMgGtT]?", "a whole number, or one such as 16k (1000) or 16K (1024)"
)
_SHARE = Form("fractions", "0?[.][0-9]*[1-9][0-9]*|1([.]0+)?", "a number above 0 and up to 1, such as 0.9")
_GIB = Form("amounts", "[0-9]{1,6}([.][0-9]{1,6})?", "a number of GiB of at least 0")


def _one_of(flag: str, *choices: str) -> Form:
    return Form(flag, "|".join(choices), f"one of {', '.join(choices)}")


_MOE = (
    "auto triton batched_triton deep_gemm deep_gemm_mega_moe cutlass flashinfer_trtllm flashinfer_cutlass"
    " flashinfer_cutedsl flashinfer_moe_ep_cutedsl flashinfer_b12x b12x flashinfer_moe_ep_mega_deep_gemm marlin humming"
    " triton_unfused aiter aiter_mega_moe aiter_triton_mxfp4_bf16 aiter_triton_mxfp4_mxfp4 flydsl hpc emulation rdna3"
)
_LINEAR = (
    "auto cutlass flashinfer_cutlass flashinfer_cutedsl flashinfer_trtllm flashinfer_cudnn flashinfer_b12x b12x marlin"
    " humming triton deep_gemm torch aiter machete fbgemm conch exllama emulation xpu xpu_woq"
)

FORMS: Mapping[str, Form] = {
    "block-size": _COUNT,
    "max-num-active-seqs": _COUNT,
    "max-num-seqs": _COUNT,
    "stream-interval": _COUNT,
    "long-prefill-token-threshold": _WHOLE,
    "max-num-queued-reqs": _WHOLE,
    "seed": _WHOLE,
    "max-logprobs": _LOGPROBS,
    "kv-cache-memory-bytes": _SIZE,
    "max-num-batched-tokens": _SIZE,
    "max-num-queued-tokens": _SIZE,
    "gpu-memory-utilization": _SHARE,
    "cpu-offload-gb": _GIB,
    "chat-template-content-format": _one_of("chat-template-content-format", "auto", "string", "openai"),
    "dtype": _one_of("dtype", "auto", "half", "float16", "bfloat16", "float", "float32"),
    "linear-backend": _one_of("linear-backend", *_LINEAR.split()),
    "moe-backend": _one_of("moe-backend", *_MOE.split()),
    "performance-mode": _one_of("performance-mode", "balanced", "interactivity", "throughput"),
    "scheduling-policy": _one_of("scheduling-policy", "fcfs", "priority"),
}
"""Flags whose values are known; the others take names that plugins add to, such as quantization."""

_OURS = frozenset(
    {
        "disable-access-log-for-endpoints",
        "enable-expert-parallel",
        "enable-logging-iteration-details",
        "host",
        "max-model-len",
        "middleware",
        "pipeline-parallel-size",
        "port",
        "served-model-name",
        "shutdown-timeout",
        "speculative-config",
        "tensor-parallel-size",
        "data-parallel-size",
        "trust-remote-code",
    }
)
"""Flags that the operator and the worker set."""

_BOTH = VALUE_FLAGS | SWITCHES | _OURS
KNOWN: Mapping[str, frozenset[str]] = {"0.32": _BOTH, "0.33": _BOTH}
"""The flags that we know of each version of vLLM, by its first two numbers."""
ONLY: Mapping[str, Mapping[str, frozenset[str]]] = {
    "0.32": {"moe-backend": frozenset(_MOE.split()) - {"aiter_triton_mxfp4_mxfp4"}},
    "0.33": {},
}
"""Where a version takes fewer values than FORMS says."""


def by_form() -> Iterator[tuple[Form, tuple[str, ...]]]:
    """Every form with its flags."""
    for form in dict.fromkeys(FORMS.values()):
        yield form, tuple(sorted(flag for flag, other in FORMS.items() if other == form))


def release(version: str) -> str:
    """The first two numbers of a version: what decides about flags."""
    found = re.match(r"[0-9]+[.][0-9]+", version)
    return found[0] if found else ""


def is_same(stated: str, installed: str) -> bool:
    """Whether an `installed` version is the `stated` one; 0.32 states any 0.32.x, and a build such as +cpu is none."""
    numbers, wanted = (re.split("[-+]", version)[0].split(".") for version in (installed, stated))
    return numbers[: len(wanted)] == wanted


def not_accepted(version: str, flag: str, value: str) -> str:
    """Why vLLM `version`, a known one, does not take a flag with its value; empty if it does."""
    known = KNOWN[release(version)]
    if flag not in known:
        return f"vLLM {version} has no flag {flag} that this version of modelfleet knows"
    only = ONLY[release(version)].get(flag)
    if only is not None and value not in only:
        return f"vLLM {version} takes no {flag} {value}"
    return ""
