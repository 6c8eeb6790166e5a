"""How a checkpoint stores its numbers: the `quantization_config` of a config.json. Pure.

Source of the forms: the quantization integrations of transformers and vLLM, and published checkpoints of each kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from modelfleet.core.model.facts import Scheme
from modelfleet.core.model.keys import Keys, shown

_PLAIN = {
    "fp8": Scheme.FP8,
    "fbgemm_fp8": Scheme.FP8,
    "ptpc_fp8": Scheme.FP8,
    "finegrained_fp8": Scheme.FP8,
    "modelopt_fp4": Scheme.NVFP4,
    "nvfp4": Scheme.NVFP4,
    "mxfp4": Scheme.MXFP4,
    "gpt_oss_mxfp4": Scheme.MXFP4,
}
_INTEGERS = ("awq", "awq_marlin", "gptq", "gptq_marlin", "auto-round", "inc")
_ALGORITHMS = {"FP8": Scheme.FP8, "FP8_PB_WO": Scheme.FP8, "NVFP4": Scheme.NVFP4, "W4A16_AWQ": Scheme.INT4}
_KEPT_KEYS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude")
_SIZED = (*_PLAIN, *_INTEGERS, "compressed-tensors", "modelopt", "bitsandbytes", "quark")


@dataclass(frozen=True)
class Checkpoint:
    """The scheme of the weights, and which parts it covers."""

    native: Scheme
    attention: bool = True
    head: bool = False


def read_checkpoint(keys: Keys, text: Keys) -> Checkpoint:
    """What is stored how; the key is at the top, or (Kimi-K2.5) in the text part. Raises ConfigError."""
    plain = Scheme.FP16 if (text.text("dtype") or text.text("torch_dtype")) == "float16" else Scheme.BF16
    stated = keys.inner("quantization_config") or text.inner("quantization_config")
    stated = stated or keys.inner("compression_config")
    if stated is None:
        return Checkpoint(plain)
    scheme = _scheme(Keys(stated.values, stated.name, stated.path), plain)
    kept = _kept(stated)
    attention = scheme is plain or not any("self_attn" in name or "attention" in name for name in kept)
    return Checkpoint(scheme, attention=attention)


def _kept(keys: Keys) -> tuple[str, ...]:
    """Patterns of the modules that stay 16 bit and that stand for a whole kind of layer, not for single layers."""
    names = [name for key in _KEPT_KEYS for name in keys.strings(key) or ()]
    attention = [name for name in names if "self_attn" in name or "attention" in name]
    patterns = [name for name in attention if "*" in name]
    # A list without patterns names the layers one by one; single ones left out do not make the rest 16 bit.
    return tuple(patterns or (attention if len(attention) > 8 else ()))


def _scheme(keys: Keys, plain: Scheme) -> Scheme:
    method = keys.text("quant_method")
    if method is None:
        raise keys.error("quant_method", f"is missing: known are {', '.join(_SIZED)}")
    method = method.lower()
    if method in _PLAIN:
        return _PLAIN[method]
    if method in _INTEGERS:
        return _integers(keys, keys.size("bits", "w_bit", most=64, default=4), "bits")
    if method == "bitsandbytes":
        return _bitsandbytes(keys, plain)
    if method == "modelopt":
        return _modelopt(keys)
    if method == "compressed-tensors":
        return _compressed(keys)
    if method == "quark":
        return _quark(keys)
    raise keys.error("quant_method", f"is {shown(method)}: known are {', '.join(_SIZED)}")


def _integers(keys: Keys, bits: int, key: str) -> Scheme:
    if bits not in (4, 8):
        raise keys.error(key, f"is {bits}: 4 and 8 bit integers can be sized")
    return Scheme.INT4 if bits == 4 else Scheme.INT8


def _bitsandbytes(keys: Keys, plain: Scheme) -> Scheme:
    if keys.flag("load_in_4bit"):
        return Scheme.INT4
    return Scheme.INT8 if keys.flag("load_in_8bit") else plain


def _modelopt(keys: Keys) -> Scheme:
    inner = keys.inner("quantization") or keys
    algorithm = inner.text("quant_algo")
    if algorithm is None or algorithm.upper() not in _ALGORITHMS:
        raise inner.error("quant_algo", f"is {shown(algorithm)}: known are {', '.join(_ALGORITHMS)}")
    return _ALGORITHMS[algorithm.upper()]


def _compressed(keys: Keys) -> Scheme:
    groups = keys.inner("config_groups")
    if groups is None:
        raise keys.error("config_groups", "is missing: it says how the weights are stored")
    schemes = {_stored(weights, keys) for weights in _weights(groups)}
    if not schemes:
        raise keys.error("config_groups", "names no weights: it says how the weights are stored")
    return max(schemes, key=lambda scheme: _WIDTH_ORDER.index(scheme))


_WIDTH_ORDER = (Scheme.MXFP4, Scheme.NVFP4, Scheme.INT4, Scheme.INT8, Scheme.FP8)
"""Where a checkpoint mixes schemes the widest counts, so that memory is not promised that is not there."""


def _weights(groups: Keys) -> Iterable[Keys]:
    for name in groups.values:
        group = groups.inner(str(name))
        weights = group.inner("weights") if group else None
        if weights:
            yield Keys(weights.values, weights.name, weights.path)


def _stored(weights: Keys, keys: Keys) -> Scheme:
    bits, kind = weights.size("num_bits", most=64), weights.text("type") or "int"
    if kind == "float" and bits == 8:
        return Scheme.FP8
    if kind == "float" and bits == 4:
        return Scheme.MXFP4 if "mxfp4" in (keys.text("format") or "") else Scheme.NVFP4
    if kind != "int":
        raise weights.error("num_bits", f"is {bits} of type {shown(kind)}: 8 and 4 bit floats can be sized")
    return _integers(weights, bits, "num_bits")


def _quark(keys: Keys) -> Scheme:
    group = keys.inner("global_quant_config")
    weights = group.inner("weight") if group else None
    form = weights.text("dtype") if weights else None
    if form in ("fp8_e4m3", "fp4", "int8", "int4"):
        return {"fp8_e4m3": Scheme.FP8, "fp4": Scheme.MXFP4, "int8": Scheme.INT8, "int4": Scheme.INT4}[form]
    raise keys.error("global_quant_config.weight.dtype", f"is {shown(form)}: fp8_e4m3, fp4, int8 and int4 can be sized")
