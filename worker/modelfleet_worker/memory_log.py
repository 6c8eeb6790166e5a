"""What an engine says about memory: the allocator's figures, where it ran out, which prompts it worked on. Pure.

Texts are those of torch 2.11 to 2.13 and vLLM 0.32 and 0.33. Nothing here decides anything; memory_cause does.
"""

import re
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from modelfleet_worker.diagnosis import DUMP, clean, is_access, of_api_server

_BEFORE_LINES = 60  # a traceback stands before the words that end it
_PROMPTS = 64

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_NUMBER = r"\d{1,15}(?:\.\d{1,15})?"
_SIZE = rf"({_NUMBER}) (bytes|KiB|MiB|GiB)"
_OUT = re.compile(
    r"OutOfMemoryError|out of memory|not enough GPU memory|DefaultCPUAllocator|Cannot allocate memory|MemoryError"
    r"|std::bad_alloc"
)
_TRIED = re.compile(rf"[Tt]ried to allocate {_SIZE}")
_CAPACITY = re.compile(rf"has a total capacity of {_SIZE} of which {_SIZE} is free")
_OTHER = re.compile(rf"Process (\d+) has {_SIZE} memory in use")
_THIS = re.compile(rf"this process has {_SIZE} memory in use")
_RESERVED = re.compile(rf"and {_SIZE} is reserved by PyTorch but unallocated")
_SHORT = re.compile(
    rf"\((?P<free>{_NUMBER})/(?P<total>{_NUMBER}) GiB\) on (?:startup|kv cache allocation) is less than"
    rf" (?:desired (?:GPU|CPU) memory utilization \([\d.]+, |requested memory for kv \()(?P<wanted>{_NUMBER})"
)
_PROMPT = re.compile(r"\bprompt_token_ids_len=(\d+)")  # of new requests alone
_BUDGET = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)")
_WORKER_DIED = re.compile(r"Worker proc \S+ died unexpectedly(?: \(exit code: (-?\d+))?")


class Mechanism(StrEnum):
    """How a step can need more memory than the engine measured at its start. The value is how it is said."""

    PROMPT_LOGPROBS = "the log-probabilities of a prompt (tokens × vocabulary)"
    ENCODER = "the encoder of images or sounds"
    CONTEXT_WORKSPACE = "the workspace for the context of a long prompt"
    UNCHUNKED = "a prompt that is processed in one step, because chunked prefill is off"
    SAMPLER = "the sampler's logits (sequences × vocabulary)"
    LATE_BUFFERS = "buffers of NCCL or of CUDA graphs that were made late"
    FRAGMENTATION = "fragmentation: enough was reserved and no piece was large enough"


# By functions of a traceback, or words of an error, in the order in which they win.
_MECHANISMS = (
    (Mechanism.PROMPT_LOGPROBS, re.compile(r"_get_prompt_logprobs|compute_prompt_logprobs|prompt_logprobs_dict")),
    (Mechanism.ENCODER, re.compile(r"_execute_mm_encoder|embed_multimodal|_process_image_input|vision_tower")),
    (Mechanism.CONTEXT_WORKSPACE, re.compile(r"_compute_prefill_context|chunked_prefill_workspace|gather_and_maybe")),
    (Mechanism.LATE_BUFFERS, re.compile(r"nccl\w*Error|NCCL error|in capture_graph|in capture_model|CUDAGraph\.")),
    (Mechanism.SAMPLER, re.compile(r"sampler|in sample_tokens|apply_top_k_top_p|in compute_logits")),
)


@dataclass(frozen=True, kw_only=True)
class Said:
    """What was said. Sizes are bytes, 0 where they were not told. `others_bytes` is what the allocator said other
    processes hold of the device. `wanted`, `free` and `total` are of a refusal at the start."""

    out_of_memory: str = ""
    mechanism: Mechanism | None = None
    tried_bytes: int = 0
    free_bytes: int = 0
    total_bytes: int = 0
    others_bytes: int = 0
    wanted_bytes: int = 0
    prompts_tokens: tuple[int, ...] = ()
    budget_tokens: int | None = None
    worker_code: int | None = None
    silent: bool = False
    """A process of the engine ended without a word and without a known exit code."""


@dataclass
class Listener:
    """Takes in lines, holds a bounded amount."""

    _before: deque[str] = field(default_factory=lambda: deque(maxlen=_BEFORE_LINES))
    _out: str = ""
    _short: str = ""
    _frames: str = ""
    _prompts: tuple[int, ...] = ()
    _budget: int | None = None
    _worker_code: int | None = None
    _worker_died: bool = False
    _core_dead: bool = False
    _core_spoke: bool = False
    _serves: bool = False

    def add(self, line: str) -> None:
        """One line as the engine wrote it."""
        if is_access(line):
            return
        if DUMP in line:
            self._prompts = tuple(map(int, _PROMPT.findall(line)))[:_PROMPTS]
            return
        words = clean(line)
        if found := _BUDGET.search(words):
            self._budget = int(found[1])
        self._note_deaths(words)
        if not self._short and _SHORT.search(words):
            self._short = words
        if not self._out and _OUT.search(words) and not (self._serves and of_api_server(line)):
            self._out, self._frames = _whole(line), "\n".join((*self._before, words))
        self._before.append(words)

    def _note_deaths(self, words: str) -> None:
        if died := _WORKER_DIED.search(words):
            self._worker_died = True
            self._worker_code = int(died[1]) if died[1] else self._worker_code
        self._core_dead = self._core_dead or "EngineDeadError" in words
        self._core_spoke = self._core_spoke or "EngineCore encountered a fatal error" in words

    def forget_start(self) -> None:
        """The engine serves: words of the start explain nothing any more."""
        self._serves = True
        self._out = self._short = self._frames = ""

    def said(self) -> Said:
        """What was heard so far."""
        if short := _SHORT.search(self._short):
            free, total, wanted = (int(float(short[name]) * _UNITS["GiB"]) for name in ("free", "total", "wanted"))
        else:
            free, total, wanted = _bytes(_CAPACITY, self._out, 2), _bytes(_CAPACITY, self._out), 0
        return Said(
            out_of_memory=self._short or clean(self._out),
            mechanism=self._mechanism(),
            tried_bytes=_bytes(_TRIED, self._out),
            free_bytes=free,
            total_bytes=total,
            others_bytes=self._others(),
            wanted_bytes=wanted,
            prompts_tokens=self._prompts,
            budget_tokens=self._budget,
            worker_code=self._worker_code,
            silent=self._worker_code is None and (self._worker_died or (self._core_dead and not self._core_spoke)),
        )

    def _others(self) -> int:
        """In a container torch cannot tell its own process from others, and lists it among them by the node's id; only
        where it names itself are the others not us."""
        if not _THIS.search(self._out):
            return 0
        return sum(int(float(size) * _UNITS[unit]) for _, size, unit in _OTHER.findall(self._out))

    def _mechanism(self) -> Mechanism | None:
        for mechanism, pattern in _MECHANISMS:
            if pattern.search(self._frames):
                return mechanism
        tried, reserved = _bytes(_TRIED, self._out), _bytes(_RESERVED, self._out)
        return Mechanism.FRAGMENTATION if tried and reserved >= tried else None


def _whole(line: str) -> str:
    """The line with its end: torch tells its figures behind what `clean` keeps."""
    return line[-4000:]


def _bytes(pattern: re.Pattern[str], text: str, which: int = 1) -> int:
    found = pattern.search(text)
    if not found:
        return 0
    return int(float(found[2 * which - 1]) * _UNITS[found[2 * which]])
