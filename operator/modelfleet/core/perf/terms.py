"""What one engine step has to do at least, term by term, before any efficiency. Pure.

A step runs the prompt tokens and the decoding sequences that the scheduler gave it through all layers. Each term is a
lower bound from the chip's data sheet (seconds at full rate) or a count; `steps` turns them into time with the
constants of `constants`. All are of the busiest accelerator, summed over pipeline stages.
"""

from dataclasses import dataclass

from modelfleet.core.model.facts import Attention, AttentionLayers, FeedForwardLayers, Scheme
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.numbers import BYTES, attention_scheme, flops_per_s, head_scheme

_SLOW = 4.0
"""A collective over PCIe or between nodes takes this many times longer to start than over NVLink, where engines have
kernels of their own: NCCL's all-reduce of small messages takes 28 to 66 us on PCIe-joined pairs and 43 to 65 us between
nodes (vidur's measured collectives), the engines' about 13 us in the fit."""
_NVLINK_BYTES_PER_S = 100e9
"""Slower fabrics are PCIe or bridges."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one step works on, over the whole replica.

    `prefill_context_tokens` are tokens that the prefilled ones look back at, beyond themselves; `decode_context_tokens`
    is the mean context of one decoding sequence.
    """

    prefill_tokens: float = 0.0
    prefill_context_tokens: float = 0.0
    decode_sequences: float = 0.0
    decode_context_tokens: float = 0.0

    @property
    def tokens(self) -> float:
        """Tokens that pass through the layers."""
        return self.prefill_tokens + self.decode_sequences


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The parts of one step. Those in _s are seconds at the data sheet's rate, the others are counts."""

    weights_s: float = 0.0
    """Reading all matrices but routed experts': bytes / memory bandwidth."""
    experts_s: float = 0.0
    """Reading the experts that the step's tokens visit, 1 - (1 - k/E)^tokens of all."""
    kv_s: float = 0.0
    """Reading the cache of the decoding sequences."""
    gemm_s: float = 0.0
    """Two operations a parameter and token, routed experts apart."""
    expert_gemm_s: float = 0.0
    attention_s: float = 0.0
    """Scores and weighted sums of prefilled tokens, 16-bit arithmetic."""
    stream_s: float = 0.0
    """Hidden states through norms, residuals and quantization, once a layer: tensor parallelism does not divide it."""
    route_s: float = 0.0
    """Hidden states copied to each token's experts and back, once a mixture layer."""
    exchange_s: float = 0.0
    """Bytes of all-reduce, all-to-all and stage hops over the fabric's one-way bandwidth."""
    exchanges: float = 0.0
    """Collectives in the step."""
    layers: float = 0.0
    mixture_layers: float = 0.0
    indexed_layers: float = 0.0
    """Layers of sparse attention, whose indexer runs before it."""
    sequences: float = 0.0
    """Decoding sequences of one data-parallel rank: sampling, scheduling, streaming."""


def step_terms(case: Case, batch: Batch) -> Terms:
    """The terms of one step of `batch`."""
    layout, hardware = case.layout, case.hardware
    ranks = layout.data
    tokens = batch.tokens / ranks
    weights = case.setup.weights
    projections = attention_scheme(case.facts, weights)
    dense = _dense_parameters(case)
    attention = sum(part.count * part.parameters for part in case.facts.attention)
    head = case.facts.vocabulary * case.facts.hidden
    head_bytes = BYTES[head_scheme(case.facts, weights)]
    bandwidth, shards = hardware.memory_bytes_per_s, layout.tensor
    sampled = batch.decode_sequences / ranks + (1.0 if batch.prefill_tokens else 0.0)
    weight_bytes = (attention * BYTES[projections] + dense * BYTES[weights] + head * head_bytes) / shards
    gemm_s = (
        2 * tokens / shards * (attention / flops_per_s(hardware, projections) + dense / flops_per_s(hardware, weights))
    )
    gemm_s += 2 * sampled * head / shards / flops_per_s(hardware, Scheme.BF16)
    experts = experts_of(case)
    visited = sum(each.parameters * each.share for each in experts)
    exchange = _exchange(case, batch.tokens)
    state_s = 2.0 * tokens * case.facts.hidden / bandwidth
    return Terms(
        weights_s=weight_bytes / bandwidth,
        experts_s=sum(each.read(batch.tokens) for each in experts) * BYTES[weights] / bandwidth,
        kv_s=batch.decode_sequences / ranks * kv_bytes(case, batch.decode_context_tokens) / bandwidth,
        gemm_s=gemm_s,
        expert_gemm_s=2 * batch.tokens * visited / flops_per_s(hardware, weights),
        attention_s=_attention_flops(case, batch) / ranks / shards / flops_per_s(hardware, Scheme.BF16),
        stream_s=state_s * case.facts.layers,
        route_s=state_s * _copies(case),
        exchange_s=exchange.seconds,
        exchanges=exchange.collectives,
        layers=case.facts.layers,
        mixture_layers=sum(each.layers for each in experts),
        indexed_layers=sum(p.count for p in case.facts.attention if p.kind == Attention.LATENT_SPARSE),
        sequences=batch.decode_sequences / ranks,
    )


def _routed(part: FeedForwardLayers, hidden: int) -> float:
    """Parameters of all routed experts of one layer."""
    return float(part.experts * part.matrices * hidden * part.intermediate)


def _dense_parameters(case: Case) -> float:
    """Feed-forward parameters that every token visits."""
    total = 0.0
    for part in case.facts.feed_forward:
        total += part.count * (part.parameters - _routed(part, case.facts.hidden))
    return total


@dataclass(frozen=True)
class Experts:
    """The routed experts of equal layers in one accelerator; each token visits `share` of them."""

    parameters: float
    share: float
    layers: int

    def read(self, tokens: float) -> float:
        """Parameters that a step of `tokens` reads: an expert is left out with probability (1 - k/E)^tokens."""
        left_out: float = (1 - self.share) ** tokens
        return self.parameters * (1 - left_out)


def experts_of(case: Case) -> list[Experts]:
    """The routed experts of one accelerator, 1 / (tensor × data) of all with and without expert parallelism."""
    spread = case.layout.tensor * case.layout.data
    return [
        Experts(
            part.count * _routed(part, case.facts.hidden) / spread, part.experts_per_token / part.experts, part.count
        )
        for part in case.facts.feed_forward
        if part.experts
    ]


def _copies(case: Case) -> float:
    """Copies of one token's hidden state that one accelerator handles for the experts it holds, over all layers."""
    spread = case.layout.tensor if case.layout.expert else 1
    return sum(part.count * part.experts_per_token for part in case.facts.feed_forward if part.experts) / spread


def kv_bytes(case: Case, context_tokens: float) -> float:
    """Bytes of cache that one accelerator reads to decode one token of a sequence of `context_tokens`."""
    element = BYTES[case.setup.kv]
    total = 0.0
    for part in case.facts.attention:
        total += part.count * _layer_kv(part, context_tokens, case.layout.tensor, element)
    return total


def _layer_kv(part: AttentionLayers, context: float, shards: int, element: float) -> float:
    if part.kind == Attention.LATENT:
        return context * (part.latent_dim + part.rope_dim) * element
    if part.kind == Attention.LATENT_SPARSE:
        selected = min(context, part.index_tokens or context)
        return selected * (part.latent_dim + part.rope_dim) * element + context * part.index_dim
    if part.kind == Attention.LINEAR:
        return 2 * 2.0 * part.state_elements / shards  # read and written, 16 bit
    heads = max(part.kv_heads / shards, 1.0)
    seen = min(context, part.window_tokens or context) if part.kind == Attention.SLIDING else context
    return seen * heads * (part.head_dim + part.value_head_dim) * element


def _attention_flops(case: Case, batch: Batch) -> float:
    """Operations of causal attention over the prefilled tokens: each looks at half of them and at what came before."""
    tokens = batch.prefill_tokens
    total = 0.0
    for part in case.facts.attention:
        seen = tokens / 2 + batch.prefill_context_tokens
        if part.kind == Attention.LINEAR:
            continue
        if part.kind == Attention.SLIDING and part.window_tokens:
            seen = min(seen, part.window_tokens)
        width = part.heads * (part.head_dim + part.value_head_dim)
        if part.kind == Attention.LATENT_SPARSE and part.index_tokens:
            total += part.count * 2 * tokens * seen * part.index_heads * part.index_dim
            seen = min(seen, part.index_tokens)
        total += part.count * 2 * tokens * seen * width
    return total


@dataclass(frozen=True)
class _Exchange:
    """What leaves one accelerator in a step: seconds at the links' rate, and the number of collectives."""

    seconds: float
    collectives: float


def _exchange(case: Case, tokens: float) -> _Exchange:
    """Tensor parallelism all-reduces the hidden states twice a layer (ring: 2 (n - 1)/n of them pass each link). Data
    parallelism sends each token's hidden state to the other ranks that have one of its k experts, and back. A
    pipeline stage hands its hidden states on. What spans more accelerators than the fabric joins goes over the network.
    """
    layout, facts, hardware = case.layout, case.facts, case.hardware
    state = 2.0 * facts.hidden * tokens / layout.data
    inside = 1 / hardware.fabric_bytes_per_s if hardware.fabric_bytes_per_s else 0.0
    outside = 1 / hardware.network_bytes_per_s if hardware.network_bytes_per_s else inside
    seconds = count = 0.0
    start = 1.0 if hardware.fabric_bytes_per_s >= _NVLINK_BYTES_PER_S else _SLOW
    if layout.tensor > 1:
        far = layout.tensor > hardware.domain
        seconds += 2 * facts.layers * 2 * (layout.tensor - 1) / layout.tensor * state * (outside if far else inside)
        count += 2 * facts.layers * (_SLOW if far else start)
    if layout.data > 1:
        far = layout.tensor * layout.data > hardware.domain
        for part in facts.feed_forward:
            others = (layout.data - 1) * (1 - (1 - 1 / layout.data) ** part.experts_per_token)
            seconds += 1.5 * part.count * others * state * (outside if far else inside)  # there in fp8, back in 16 bit
            count += 2 * part.count * (_SLOW if far else start) if part.experts else 0
    if layout.pipeline > 1:
        far = layout.accelerators > hardware.domain
        seconds += (layout.pipeline - 1) * state * (outside if far else inside)
        count += (layout.pipeline - 1) * (_SLOW if far else start)
    return _Exchange(seconds, count)
