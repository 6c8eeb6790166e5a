"""Which engine flags and environment variables a user may set, and what to write instead of others. Pure data.

An allow-list, because a flag can open a file, a port or a way to run code. Names are those of vLLM 0.32 and 0.33.
"""

from collections.abc import Mapping

VALUE_FLAGS = frozenset(
    {
        "attention-backend",
        "block-size",
        "chat-template-content-format",
        "cpu-offload-gb",
        "dtype",
        "kv-cache-dtype",
        "kv-cache-memory-bytes",
        "gpu-memory-utilization",
        "limit-mm-per-prompt",
        "linear-backend",
        "long-prefill-token-threshold",
        "max-logprobs",
        "max-num-active-seqs",
        "max-num-batched-tokens",
        "max-num-queued-reqs",
        "max-num-queued-tokens",
        "max-num-seqs",
        "moe-backend",
        "performance-mode",
        "quantization",
        "reasoning-parser",
        "scheduling-policy",
        "seed",
        "stream-interval",
        "tokenizer-mode",
        "tool-call-parser",
    }
)
"""Flags that take a value."""

SWITCHES = frozenset(
    {
        "async-scheduling",
        "disable-custom-all-reduce",
        "enable-auto-tool-choice",
        "enable-chunked-prefill",
        "enable-force-include-usage",
        "enable-prefix-caching",
        "enable-prompt-tokens-details",
        "enable-request-id-headers",
        "enforce-eager",
        "no-async-scheduling",
        "no-enable-chunked-prefill",
        "no-enable-prefix-caching",
    }
)
"""Flags that stand alone: written with the value "true" or ""."""

_OURS = "the operator sets it"
_REACHES = "it would let the engine read or run what the operator has not checked"

REFUSED_FLAGS: Mapping[str, str] = {
    "model": "write spec.model.source",
    "tokenizer": "the tokenizer is the one in the model's folder",
    "served-model-name": "write spec.model.servedNames",
    "max-model-len": "write spec.model.maxContextTokens",
    "tensor-parallel-size": "write spec.parallelism.tensor",
    "pipeline-parallel-size": "write spec.parallelism.pipeline",
    "data-parallel-size": "write spec.parallelism.data; replicas are spec.scaling",
    "enable-expert-parallel": "write spec.parallelism.expert",
    "speculative-config": "write spec.speculation",
    "host": _OURS,
    "port": _OURS,
    "uds": _OURS,
    "root-path": _OURS,
    "middleware": _OURS,
    "shutdown-timeout": _OURS,
    "api-server-count": _OURS,
    "disable-log-stats": "the operator counts requests by them",
    "api-key": "a key among the arguments can be read by everyone who may read pods; guard the Service with a gateway",
    "config": "write the flags one by one in spec.engine.args",
    "trust-remote-code": "write spec.model.remoteCode: Allow",
    "tool-parser-plugin": _REACHES,
    "chat-template": _REACHES,
    "download-dir": _REACHES,
    "allowed-local-media-path": _REACHES,
    "hf-overrides": _REACHES,
    "logits-processors": _REACHES,
}
"""Flags that users reach for, and the sentence they get: what to write instead, or why not."""

ENV_NAMES = frozenset(
    {
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_LAUNCH_BLOCKING",
        "GLOO_SOCKET_IFNAME",
        "NCCL_DEBUG",
        "NCCL_IB_DISABLE",
        "NCCL_IB_HCA",
        "NCCL_P2P_DISABLE",
        "NCCL_P2P_LEVEL",
        "NCCL_SOCKET_IFNAME",
        "OMP_NUM_THREADS",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TOKENIZERS_PARALLELISM",
        "TORCHDYNAMO_DISABLE",
        "VLLM_CPU_KVCACHE_SPACE",
        "VLLM_CPU_OMP_THREADS_BIND",
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS",
        "VLLM_LOGGING_LEVEL",
        "VLLM_LOG_STATS_INTERVAL",
    }
)
"""Environment variables that may be set."""
