"""Nemotron-H: layers that are each one thing, a Mamba-2 mixer, attention, a mixture or a dense part. Pure.

Source: modeling_nemotron_h.py; the tests hold the sum to the published parameters of Nemotron 3 Nano.
"""

from modelfleet.core.model.facts import Attention, AttentionLayers, FeedForwardLayers
from modelfleet.core.model.keys import Keys, shown

_NAMES = {"mamba": "M", "attention": "*", "moe": "E", "mlp": "-"}


def state_space_layers(
    keys: Keys, layers: int, hidden: int
) -> tuple[tuple[AttentionLayers, ...], tuple[FeedForwardLayers, ...]]:
    """What looks back and what does not, by the pattern of the layers. Raises ConfigError."""
    pattern = _pattern(keys, layers)
    mixers, full, mixtures, dense = (pattern.count(letter) for letter in "M*E-")
    attention = [_mixer(keys, mixers, hidden)] if mixers else []
    attention += [_attention(keys, full, hidden)] if full else []
    feed_forward = [_mixture(keys, mixtures, hidden)] if mixtures else []
    if dense:
        width = keys.size("intermediate_size")
        each = 2 * hidden * width
        feed_forward.append(
            FeedForwardLayers(count=dense, intermediate=width, matrices=2, parameters=each, active_parameters=each)
        )
    if not attention or not feed_forward:
        raise keys.error("hybrid_override_pattern", "has no layer that looks back, or none that does not")
    return tuple(attention), tuple(feed_forward)


def _pattern(keys: Keys, layers: int) -> str:
    named = keys.strings("layers_block_type")
    key = "layers_block_type" if named else "hybrid_override_pattern"
    pattern = "".join(_NAMES.get(name, "?") for name in named) if named else keys.text(key)
    if pattern is None:
        raise keys.error(key, "is missing: it says which layer is what")
    if len(pattern) != layers:
        raise keys.error(key, f"has {len(pattern)} layers: num_hidden_layers is {layers}")
    if set(pattern) - set("M*E-"):
        raise keys.error(key, f"is {shown(named or pattern)}: layers are mamba, attention, moe and mlp (M, *, E and -)")
    return pattern


def _mixer(keys: Keys, count: int, hidden: int) -> AttentionLayers:
    heads = keys.size("mamba_num_heads", most=100_000)
    head_dim = keys.size("mamba_head_dim", most=100_000)
    groups = keys.size("n_groups", most=100_000, default=1)
    state = keys.size("ssm_state_size", most=100_000)
    kernel = keys.size("conv_kernel", most=1_000, default=4)
    inner, mixed = heads * head_dim, heads * head_dim + 2 * groups * state
    parameters = hidden * (inner + mixed + heads) + mixed * (kernel + 1) + 3 * heads + inner + inner * hidden
    return AttentionLayers(
        kind=Attention.LINEAR,
        count=count,
        heads=heads,
        kv_heads=groups,
        head_dim=state,
        value_head_dim=head_dim,
        state_elements=mixed * (kernel - 1) + heads * head_dim * state,
        parameters=parameters,
    )


def _attention(keys: Keys, count: int, hidden: int) -> AttentionLayers:
    heads = keys.size("num_attention_heads", most=100_000)
    kv_heads = keys.size("num_key_value_heads", most=100_000, default=heads)
    if heads % kv_heads:
        raise keys.error("num_key_value_heads", f"is {kv_heads}: it does not divide num_attention_heads, {heads}")
    head_dim = keys.size("head_dim", "attention_head_dim", most=100_000)
    return AttentionLayers(
        kind=Attention.FULL,
        count=count,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_head_dim=head_dim,
        parameters=2 * hidden * head_dim * (heads + kv_heads),
    )


def _mixture(keys: Keys, count: int, hidden: int) -> FeedForwardLayers:
    experts = keys.size("n_routed_experts", most=100_000)
    each_token = keys.size("num_experts_per_tok", most=100_000)
    if each_token > experts:
        raise keys.error("num_experts_per_tok", f"is {each_token}: more than the {experts} of n_routed_experts")
    width = keys.size("moe_intermediate_size")
    shared = keys.size("moe_shared_expert_intermediate_size", least=0, default=0)
    one, always = 2 * hidden * width, 2 * hidden * shared + experts * (hidden + 1)
    return FeedForwardLayers(
        count=count,
        intermediate=width,
        matrices=2,
        experts=experts,
        experts_per_token=each_token,
        shared_intermediate=shared,
        parameters=experts * one + always,
        active_parameters=each_token * one + always,
    )
