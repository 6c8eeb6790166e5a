"""Values of engine flags that are taken and refused, with the sentence: rows of tests/api_cases.py."""

from api_objects import Bad, Good
from modelfleet.api.engine_flags import FORMS

_REFUSED = {
    "max-num-seqs": (
        "0",
        "block-size, max-num-active-seqs, max-num-seqs, stream-interval take a whole number of at least 1",
    ),
    "seed": ("-1", "long-prefill-token-threshold, max-num-queued-reqs, seed take a whole number of at least 0"),
    "max-logprobs": ("many", "max-logprobs takes a whole number of at least 0, or -1 for all"),
    "max-num-batched-tokens": (
        "16kB",
        "kv-cache-memory-bytes, max-num-batched-tokens, max-num-queued-tokens take a whole number, or one such as 16k"
        " (1000) or 16K (1024)",
    ),
    "gpu-memory-utilization": ("1.1", "gpu-memory-utilization takes a number above 0 and up to 1, such as 0.9"),
    "cpu-offload-gb": ("4GiB", "cpu-offload-gb takes a number of GiB of at least 0"),
    "dtype": ("fp16", "dtype takes one of auto, half, float16, bfloat16, float, float32"),
    "scheduling-policy": ("lifo", "scheduling-policy takes one of fcfs, priority"),
    "performance-mode": ("fast", "performance-mode takes one of balanced, interactivity, throughput"),
    "chat-template-content-format": ("json", "chat-template-content-format takes one of auto, string, openai"),
    "moe-backend": ("fastest", f"moe-backend takes {FORMS['moe-backend'].words}"),
    "linear-backend": ("fastest", f"linear-backend takes {FORMS['linear-backend'].words}"),
}

ENGINE_GOOD = (
    Good(
        "values of every form that the engine takes",
        {
            "spec.engine.args": {
                "max-num-seqs": 256,
                "seed": 0,
                "max-logprobs": "-1",
                "max-num-batched-tokens": "16K",
                "kv-cache-memory-bytes": "1.5G",
                "gpu-memory-utilization": "1.0",
                "cpu-offload-gb": "2.5",
                "dtype": "bfloat16",
                "moe-backend": "flashinfer_trtllm",
                "scheduling-policy": "priority",
                "quantization": "whatever-a-plugin-brings",
            }
        },
    ),
)

ENGINE_BAD = tuple(
    Bad(f"{flag} {value}", {"spec.engine.args": {flag: value}}, "spec.engine.args", said)
    for flag, (value, said) in _REFUSED.items()
)
