"""The stand-in's flags, which are vLLM's, and its knobs, which are environment variables."""

import argparse
import os
from dataclasses import dataclass, field

BLOCK_TOKENS = 16
SLOW_S = 0.5


def _number(name: str, default: float) -> float:
    return float(os.environ.get(f"STAND_IN_{name}", default))


@dataclass(frozen=True)
class Knobs:
    """What vLLM has no flag for. Times in seconds."""

    start_s: float = field(default_factory=lambda: _number("START_S", 0.0))
    load_s: float = field(default_factory=lambda: _number("LOAD_S", 0.0))
    warm_up_s: float = field(default_factory=lambda: _number("WARM_UP_S", 0.0))
    token_s: float = field(default_factory=lambda: _number("TOKEN_S", 0.001))
    sequence_s: float = field(default_factory=lambda: _number("SEQUENCE_S", 0.0))
    prompt_token_s: float = field(default_factory=lambda: _number("PROMPT_TOKEN_S", 0.0))
    slow_while: str = field(default_factory=lambda: os.environ.get("STAND_IN_SLOW_WHILE", ""))
    kv_tokens: int = field(default_factory=lambda: int(_number("KV_TOKENS", 2**20)))
    says: str = field(default_factory=lambda: os.environ.get("STAND_IN_SAYS", ""))
    exit: str = field(default_factory=lambda: os.environ.get("STAND_IN_EXIT", ""))
    fault: str = field(default_factory=lambda: os.environ.get("STAND_IN_FAULT", ""))

    def step_s(self, decoding: int, prompt_tokens: int) -> float:
        """How long a step of so many sequences and prompt tokens takes now."""
        slow_s = SLOW_S if self.slow_while and os.path.exists(self.slow_while) else 0.0
        return self.token_s + slow_s + self.sequence_s * decoding + self.prompt_token_s * prompt_tokens


def parse(argv: list[str]) -> argparse.Namespace:
    """vLLM's command line; an unknown flag ends the process with status 2 as vLLM's does."""
    parser = argparse.ArgumentParser(prog="vllm")
    add = parser.add_argument
    add("-m", dest="module", choices=["vllm.entrypoints.cli.main"], required=True)
    add("command", choices=["serve"])
    add("model")
    add("--host", default="127.0.0.1")
    add("--port", type=int)
    add("--served-model-name", nargs="+", required=True)
    add("--middleware", action="append", default=[])
    add("--shutdown-timeout", type=int, choices=[0])
    add("--disable-access-log-for-endpoints")
    add("--enable-logging-iteration-details", action="store_true")
    _scheduling(parser)
    _ranks(parser)
    return parser.parse_args(argv)


def _scheduling(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--max-model-len", type=int, default=2**20)
    add("--max-num-seqs", type=int, default=256)
    add("--max-num-batched-tokens", type=int, default=8192)
    add("--max-num-queued-reqs", type=int)
    add("--max-num-queued-tokens", type=int)
    add("--stream-interval", type=int, default=1)
    add("--num-gpu-blocks-override", type=int)
    add("--enable-prefix-caching", action="store_true")
    add("--no-enable-prefix-caching", action="store_true")
    for ignored in ("--enforce-eager", "--enable-prompt-tokens-details"):
        add(ignored, action="store_true")
    for ignored in ("--kv-cache-memory-bytes", "--gpu-memory-utilization", "--dtype", "--additional-config"):
        add(ignored)


def _ranks(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    for count in ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--nnodes"):
        add(count, type=int, default=1)
    add("--node-rank", type=int, default=0)
    add("--master-addr", default="127.0.0.1")
    add("--master-port", type=int, default=29500)
    add("--distributed-executor-backend", choices=["mp", "ray", "uni", "external_launcher"])
    add("--headless", action="store_true")


def kv_blocks(options: argparse.Namespace, knobs: Knobs) -> int:
    """How many blocks the cache has."""
    return int(options.num_gpu_blocks_override or max(1, knobs.kv_tokens // BLOCK_TOKENS))
