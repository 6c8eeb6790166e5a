"""Model facts from a Hugging Face config.json. Pure: whoever has the file reads it.

What is not known is said and never guessed: an unknown kind of model is an error that names it.
"""

from collections.abc import Mapping
from typing import Any

from modelfleet.core.model.attention import attention_layers
from modelfleet.core.model.checkpoint import read_checkpoint
from modelfleet.core.model.facts import ModelFacts
from modelfleet.core.model.families import FAMILIES, SAME_AS, Family
from modelfleet.core.model.feed_forward import feed_forward_layers
from modelfleet.core.model.keys import ConfigError, Keys, shown
from modelfleet.core.model.state_space import state_space_layers
from modelfleet.core.model.vision import vision_parameters

__all__ = ["ConfigError", "read_config"]


def read_config(
    config: Mapping[str, Any], *, name: str, source: str, index: Mapping[str, Any] | None = None
) -> ModelFacts:
    """The facts of a model. `index` is its model.safetensors.index.json, where there is one.

    Raises ConfigError, one sentence with the key's path, when a size is missing or impossible or the kind is unknown.
    """
    keys = Keys.of(config, name)
    text = keys.inner("text_config") or keys.inner("llm_config") or keys
    family, architecture = _family(keys, text)
    _refuse_what_is_not_sized(text)
    layers = text.size("num_hidden_layers", "n_layer", "num_layers", most=100_000)
    hidden = text.size("hidden_size", "n_embed", most=10**7)
    vocabulary = text.size("vocab_size", most=10**8)
    tied = text.flag("tie_word_embeddings", default=family.tied)
    checkpoint = read_checkpoint(keys, text)
    norms = (layers * family.norms + 1 + family.embedding_norm) * hidden * (2 if family.norm_bias else 1)
    if family.both:
        norms += layers * (1 + 3 * hidden * text.flag("enable_moe_block"))  # a scale, and the experts' own norms
    if family.state_space:
        attention, feed_forward = state_space_layers(text, layers, hidden)
    else:
        attention = attention_layers(text, family, layers, hidden)
        feed_forward = feed_forward_layers(text, family, layers, hidden)
    return ModelFacts(
        name=name,
        architecture=architecture,
        source=source,
        layers=layers,
        hidden=hidden,
        vocabulary=vocabulary,
        tied_embeddings=tied,
        max_context_tokens=_context(text),
        attention=attention,
        feed_forward=feed_forward,
        embedding_parameters=vocabulary * hidden * (1 if tied else 2),
        other_parameters=norms + vision_parameters(keys, hidden),
        native=checkpoint.native,
        quantized_attention=checkpoint.attention,
        quantized_head=checkpoint.head,
        checkpoint_bytes=_checkpoint_bytes(index, name),
    )


def _family(keys: Keys, text: Keys) -> tuple[Family, str]:
    """By the text part's model_type, then by the whole's, then by the architecture's name."""
    named = keys.strings("architectures") or text.strings("architectures") or ()
    by_architecture = {family.architecture: kind for kind, family in FAMILIES.items()}
    kinds = [text.text("model_type"), keys.text("model_type"), *(by_architecture.get(name) for name in named)]
    for kind in kinds:
        family = FAMILIES.get(SAME_AS.get(kind or "", kind or ""))
        if family:
            return family, named[0] if named else family.architecture
    stated = f"architectures {shown(list(named))}" if named else "no architectures"
    raise text.error(
        "model_type",
        f"is {shown(kinds[0] or kinds[1])} with {stated}: a kind that cannot be sized; state the model's facts, "
        "or give a config.json with the sizes of a kind that can",
    )


def _refuse_what_is_not_sized(text: Keys) -> None:
    """Parts that change memory and that no formula here covers."""
    if text.size("num_kv_shared_layers", least=0, default=0):
        raise text.error("num_kv_shared_layers", "is set: layers that share their KV cache cannot be sized")
    if text.size("hidden_size_per_layer_input", least=0, default=0):
        raise text.error("hidden_size_per_layer_input", "is set: embeddings of each layer cannot be sized")


def _context(text: Keys) -> int:
    """The longest context. Under YaRN it may be stated as the original one and a factor."""
    stated = text.size("max_position_embeddings", "seq_length", "n_positions", "max_sequence_length")
    scaling = text.inner("rope_scaling") or text.inner("rope_parameters")
    if scaling is None:
        return stated
    scaling = Keys(scaling.values, scaling.name, scaling.path)
    if (scaling.text("rope_type") or scaling.text("type")) != "yarn":
        return stated
    original = scaling.size("original_max_position_embeddings", default=stated)
    return max(stated, int(original * scaling.number("factor", least=1, most=10_000, default=1)))


def _checkpoint_bytes(index: Mapping[str, Any] | None, name: str) -> int | None:
    if index is None:
        return None
    if not isinstance(index, Mapping) or not isinstance(index.get("metadata", {}), Mapping):
        raise ConfigError(f"safetensors index of {name}: metadata is no object: its total_size is needed")
    size = index.get("metadata", {}).get("total_size")
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int | float) or not 1 <= size <= 10**15 or size != int(size):
        raise ConfigError(
            f"safetensors index of {name}: metadata.total_size is {shown(size)}: a whole number of bytes is needed"
        )
    return int(size)
