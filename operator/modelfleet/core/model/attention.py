"""The attention layers of a config.json: what each keeps of a token, and its parameters. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from modelfleet.core.model.facts import Attention, AttentionLayers
from modelfleet.core.model.families import Family, Windows
from modelfleet.core.model.keys import Keys, shown

_KINDS = {
    "full_attention": Attention.FULL,
    "attention": Attention.FULL,
    "sliding_attention": Attention.SLIDING,
    "chunked_attention": Attention.SLIDING,
    "linear_attention": Attention.LINEAR,
}


@dataclass(frozen=True)
class _Heads:
    heads: int
    kv_heads: int
    head_dim: int


def attention_layers(keys: Keys, family: Family, layers: int, hidden: int) -> tuple[AttentionLayers, ...]:
    """Layers grouped by what they keep. Raises ConfigError."""
    if family.latent:
        return _latent_layers(keys, family, layers, hidden)
    heads = _heads(keys, hidden)
    kinds = _kinds(keys, family, layers)
    grouped = []
    for kind in (Attention.FULL, Attention.SLIDING, Attention.LINEAR):
        count = kinds.count(kind)
        if count and kind is Attention.LINEAR:
            grouped.append(_linear(keys, count, hidden))
        elif count:
            own = _global_heads(keys, heads) if family.both and kind is Attention.FULL else heads
            grouped.append(_headed(keys, family, kind, own, (count, hidden)))
    return tuple(grouped)


def _heads(keys: Keys, hidden: int) -> _Heads:
    heads = keys.size("num_attention_heads", "n_head", most=100_000)
    kv_heads = keys.size("num_key_value_heads", most=100_000, default=heads)
    if kv_heads > heads:
        raise keys.error("num_key_value_heads", f"is {kv_heads}: more than the {heads} of num_attention_heads")
    if heads % kv_heads:
        raise keys.error("num_key_value_heads", f"is {kv_heads}: it does not divide num_attention_heads, {heads}")
    if not keys.has("head_dim") and hidden % heads:
        raise keys.error(
            "num_attention_heads", f"is {heads}: it does not divide hidden_size, {hidden}, and there is no head_dim"
        )
    return _Heads(heads, kv_heads, keys.size("head_dim", most=100_000, default=hidden // heads))


def _global_heads(keys: Keys, heads: _Heads) -> _Heads:
    """Gemma 4's full layers have fewer and wider KV heads than the others."""
    kv_heads = keys.size("num_global_key_value_heads", most=100_000, default=heads.kv_heads)
    if heads.heads % kv_heads:
        raise keys.error(
            "num_global_key_value_heads", f"is {kv_heads}: it does not divide num_attention_heads, {heads.heads}"
        )
    return _Heads(heads.heads, kv_heads, keys.size("global_head_dim", most=100_000, default=heads.head_dim))


def _kinds(keys: Keys, family: Family, layers: int) -> list[Attention]:
    """The kind of each layer."""
    named = keys.strings("layer_types")
    if named is not None:
        return _named_kinds(keys, named, layers)
    if family.linear:
        every = keys.size("full_attention_interval", most=100_000, default=4)
        return _pattern(layers, every, Attention.LINEAR)
    if family.windows is Windows.CHUNKS:
        return _chunked_kinds(keys, layers)
    if family.windows is Windows.NEVER or not keys.has("sliding_window"):
        return [Attention.FULL] * layers
    return _windowed_kinds(keys, family.windows, layers)


def _named_kinds(keys: Keys, named: Sequence[str], layers: int) -> list[Attention]:
    if len(named) != layers:
        raise keys.error("layer_types", f"has {len(named)} entries: num_hidden_layers is {layers}")
    for index, name in enumerate(named):
        if name not in _KINDS:
            known = ", ".join(_KINDS)
            raise keys.error(f"layer_types[{index}]", f"is {shown(name)}: known are {known}")
    return [_KINDS[name] for name in named]


def _chunked_kinds(keys: Keys, layers: int) -> list[Attention]:
    """Llama 4: a 0 in `no_rope_layers` is a layer without positions, which looks at everything."""
    listed = keys.numbers("no_rope_layers")
    if not listed:
        every = keys.size("no_rope_layer_interval", most=100_000, default=4)
        return _pattern(layers, every, Attention.SLIDING)
    if len(listed) != layers:
        raise keys.error("no_rope_layers", f"has {len(listed)} entries: num_hidden_layers is {layers}")
    return [Attention.SLIDING if entry else Attention.FULL for entry in listed]


def _windowed_kinds(keys: Keys, windows: Windows, layers: int) -> list[Attention]:
    if windows is Windows.ALL:
        return [Attention.SLIDING] * layers
    if windows is Windows.ALTERNATE:
        return [Attention.FULL if index % 2 else Attention.SLIDING for index in range(layers)]
    if windows is Windows.PATTERN:
        every = keys.size("sliding_window_pattern", "_sliding_window_pattern", most=100_000, default=6)
        return _pattern(layers, every, Attention.SLIDING)
    if not keys.flag("use_sliding_window"):
        return [Attention.FULL] * layers
    first = keys.size("max_window_layers", least=0, default=layers)
    return [Attention.SLIDING if index >= first else Attention.FULL for index in range(layers)]


def _pattern(layers: int, every: int, other: Attention) -> list[Attention]:
    """Full attention in every `every`-th layer."""
    return [other if (index + 1) % every else Attention.FULL for index in range(layers)]


def _headed(keys: Keys, family: Family, kind: Attention, shape: _Heads, size: tuple[int, int]) -> AttentionLayers:
    """Layers that keep keys and values of heads; `size` is their number and the hidden size."""
    count, hidden = size
    window = None
    if kind is Attention.SLIDING:
        window = keys.size("attention_chunk_size" if family.windows is Windows.CHUNKS else "sliding_window")
    queries, kept = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    gate = family.linear and keys.flag("attn_output_gate", default=True)
    # Gemma 4's full layers project once and keep the result under two norms.
    projections = 1 if family.both and kind is Attention.FULL and keys.flag("attention_k_eq_v") else 2
    bias = keys.flag("attention_bias") if family.qkv_bias is None else family.qkv_bias
    output_bias = bias if family.output_bias is None else family.output_bias
    parameters = hidden * (queries * (3 if gate else 2) + projections * kept)
    parameters += (queries * (2 if gate else 1) + projections * kept) * bias + hidden * output_bias
    if keys.flag("use_qk_norm") if family.head_norms is None else family.head_norms:
        parameters += 2 * shape.head_dim
    if family.layer_norms:
        parameters += queries + kept
    return AttentionLayers(
        kind=kind,
        count=count,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        value_head_dim=shape.head_dim,
        window_tokens=window,
        parameters=parameters + shape.heads * family.sinks,
    )


def _linear(keys: Keys, count: int, hidden: int) -> AttentionLayers:
    """Gated delta net (Qwen3-Next, Qwen3.5): a matrix a value head and the short convolution's last inputs."""
    key_heads = keys.size("linear_num_key_heads", most=100_000, default=16)
    value_heads = keys.size("linear_num_value_heads", most=100_000, default=32)
    key_dim = keys.size("linear_key_head_dim", most=100_000, default=128)
    value_dim = keys.size("linear_value_head_dim", most=100_000, default=128)
    kernel = keys.size("linear_conv_kernel_dim", most=1_000, default=4)
    values, mixed = value_heads * value_dim, 2 * key_heads * key_dim + value_heads * value_dim
    projections = hidden * (mixed + values + 2 * value_heads) + values * hidden
    return AttentionLayers(
        kind=Attention.LINEAR,
        count=count,
        heads=value_heads,
        kv_heads=key_heads,
        head_dim=key_dim,
        value_head_dim=value_dim,
        state_elements=mixed * (kernel - 1) + value_heads * key_dim * value_dim,
        parameters=projections + mixed * kernel + 2 * value_heads + value_dim,
    )


def _latent_layers(keys: Keys, family: Family, layers: int, hidden: int) -> tuple[AttentionLayers, ...]:
    """MLA; where it is sparse, layers with an indexer of their own apart from those that reuse another's selection."""
    plain = _latent(keys, layers, hidden)
    if not family.sparse:
        return (plain,)
    own = _indexed(keys, layers)
    reusing = replace(plain, kind=Attention.LATENT_SPARSE, index_tokens=keys.size("index_topk"))
    parts = (_with_indexer(keys, replace(reusing, count=own), hidden), replace(reusing, count=layers - own))
    return tuple(part for part in parts if part.count)


def _indexed(keys: Keys, layers: int) -> int:
    """Layers that select for themselves: all, or (IndexCache, arXiv 2603.12201; GLM-5.2) one in some."""
    pattern = keys.text("index_topk_pattern")
    if pattern is not None:
        if len(pattern) != layers:
            raise keys.error("index_topk_pattern", f"has {len(pattern)} layers: num_hidden_layers is {layers}")
        return layers - pattern.count("S")
    every = keys.size("index_topk_freq", most=100_000, default=1)
    offset = keys.size("index_skip_topk_offset", least=0, default=2)
    return sum(max(index - offset + 1, 0) % every == 0 for index in range(layers))


def _with_indexer(keys: Keys, part: AttentionLayers, hidden: int) -> AttentionLayers:
    heads = keys.size("index_n_heads", most=100_000)
    dim = keys.size("index_head_dim", most=100_000)
    parameters = (part.query_latent_dim or hidden) * heads * dim + hidden * (dim + heads) + 2 * dim
    return replace(part, index_heads=heads, index_dim=dim, parameters=part.parameters + parameters)


def _latent(keys: Keys, layers: int, hidden: int) -> AttentionLayers:
    """MLA as in DeepSeek-V2 (arXiv 2405.04434, section 2.1)."""
    heads = keys.size("num_attention_heads", most=100_000)
    latent = keys.size("kv_lora_rank", most=10**6)
    rope = keys.size("qk_rope_head_dim", most=100_000)
    plain = keys.size("qk_nope_head_dim", most=100_000)
    value = keys.size("v_head_dim", most=100_000)
    compressed = keys.size("q_lora_rank", least=0, most=10**6, default=0)
    queries = heads * (plain + rope)
    parameters = (hidden + queries + 1) * compressed if compressed else hidden * queries
    parameters += hidden * (latent + rope) + latent + latent * heads * (plain + value) + heads * value * hidden
    return AttentionLayers(
        kind=Attention.LATENT,
        count=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=plain + rope,
        value_head_dim=value,
        latent_dim=latent,
        rope_dim=rope,
        query_latent_dim=compressed,
        parameters=parameters,
    )
