"""The feed-forward layers of a config.json: dense ones, and mixtures of experts with their router. Pure."""

from dataclasses import dataclass

from modelfleet.core.model.facts import FeedForwardLayers
from modelfleet.core.model.families import Family, Windows
from modelfleet.core.model.keys import Keys


@dataclass(frozen=True)
class _Experts:
    count: int
    each_token: int
    width: int
    shared_width: int


def feed_forward_layers(keys: Keys, family: Family, layers: int, hidden: int) -> tuple[FeedForwardLayers, ...]:
    """Layers grouped by kind. Raises ConfigError."""
    experts = _experts(keys, family)
    if experts is None:
        return (_dense(keys, family, layers, hidden),)
    mixtures = _mixture_layers(keys, family, layers)
    parts = []
    if mixtures < layers:
        parts.append(_dense(keys, family, layers - mixtures, hidden))
    if mixtures:
        parts.append(_mixture(keys, family, experts, (mixtures, hidden)))
    return tuple(parts)


def _dense_width(keys: Keys, family: Family, hidden: int) -> int:
    if family.bloom_sizes:
        return keys.size("n_inner", default=4 * hidden)
    return keys.size("intermediate_size_mlp", "intermediate_size")


def _dense(keys: Keys, family: Family, count: int, hidden: int) -> FeedForwardLayers:
    width = _dense_width(keys, family, hidden)
    matrices = 3 if family.gate else 2
    bias = family.feed_forward_bias or keys.flag("mlp_bias")
    parameters = matrices * hidden * width + ((matrices - 1) * width + hidden) * bias
    return FeedForwardLayers(
        count=count, intermediate=width, matrices=matrices, parameters=parameters, active_parameters=parameters
    )


def _experts(keys: Keys, family: Family) -> _Experts | None:
    """None where every layer is dense, as a Gemma 4 without `enable_moe_block` is."""
    if not family.mixture and not (family.both and keys.flag("enable_moe_block")):
        return None
    count_key = next((key for key in ("n_routed_experts", "num_local_experts") if keys.has(key)), "num_experts")
    count = keys.size(count_key, most=100_000)
    each_token_key = "top_k_experts" if family.both else "num_experts_per_tok"
    each_token = keys.size(each_token_key, "experts_per_token", most=100_000)
    if each_token > count:
        raise keys.error(each_token_key, f"is {each_token}: more than the {count} of {count_key}")
    width = keys.size("moe_intermediate_size", "intermediate_size")
    return _Experts(count, each_token, width, _shared_width(keys, family, width))


def _shared_width(keys: Keys, family: Family, width: int) -> int:
    if family.windows is Windows.CHUNKS:  # Llama 4 has one shared expert, as wide as the others
        return width
    stated = keys.size("shared_expert_intermediate_size", "shared_intermediate_size", least=0, default=0)
    return stated or width * keys.size("n_shared_experts", least=0, most=100_000, default=0)


def _mixture_layers(keys: Keys, family: Family, layers: int) -> int:
    """How many layers are mixtures."""
    dense_first = keys.size("first_k_dense_replace", least=0, default=0) if family.dense_first else 0
    if dense_first > layers:
        raise keys.error("first_k_dense_replace", f"is {dense_first}: num_hidden_layers is {layers}")
    listed = keys.numbers("moe_layers")
    if listed:
        return len({index for index in listed if index < layers})
    if family.dense_first:
        every = keys.size("moe_layer_freq", most=100_000, default=1)
        return sum(index % every == 0 for index in range(dense_first, layers))
    every = keys.size("interleave_moe_layer_step", "decoder_sparse_step", most=100_000, default=1)
    dense = set(keys.numbers("mlp_only_layers") or ())
    return sum((index + 1) % every == 0 and index not in dense for index in range(layers))


def _mixture(keys: Keys, family: Family, experts: _Experts, size: tuple[int, int]) -> FeedForwardLayers:
    """Mixture layers; `size` is their number and the hidden size."""
    count, hidden = size
    one = 3 * hidden * experts.width + (2 * experts.width + hidden) * family.expert_bias
    shared_width = experts.shared_width + (_dense_width(keys, family, hidden) if family.both else 0)
    always = 3 * hidden * shared_width + hidden * family.shared_gate
    always += experts.count * (hidden + family.routing_bias)
    if family.both:  # the router's scales: one a channel, one an expert
        always += hidden + experts.count
    return FeedForwardLayers(
        count=count,
        intermediate=experts.width,
        experts=experts.count,
        experts_per_token=experts.each_token,
        shared_intermediate=shared_width,
        parameters=experts.count * one + always,
        active_parameters=experts.each_token * one + always,
    )
