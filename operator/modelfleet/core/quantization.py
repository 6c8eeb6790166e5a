"""Which weights and which KV scheme a class runs, and whether a departure from its standard has evidence. Pure.

Rule 13: one standard for each generation of accelerators. Another quantized scheme needs evidence: the weights that
were evaluated, the evaluation, and the engine version it was done on; another engine version has other kernels, so the
evidence ends with it. Weights that nobody narrowed never need evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.answer import Check, Departure, QuantizationDecision
from modelfleet.core.layout.question import Candidate, Question, Variant, place
from modelfleet.core.layout.wording import listed
from modelfleet.core.model.facts import Scheme

UNQUANTIZED = frozenset({Scheme.BF16, Scheme.FP16})

PUBLISHED_AS = {
    "DeepseekV3ForCausalLM": Scheme.FP8,
    "DeepseekV32ForCausalLM": Scheme.FP8,
    "GptOssForCausalLM": Scheme.MXFP4,
    "MiniMaxM2ForCausalLM": Scheme.FP8,
}
"""Architectures whose authors trained in this scheme and publish no wider weights (their model cards): using what they
publish is no departure."""

_NEEDS_CAPABILITY = {
    Scheme.BF16: (8, 0),
    Scheme.FP16: (7, 0),
    Scheme.FP8: (7, 5),
    Scheme.INT8: (7, 5),
    Scheme.INT4: (7, 5),
    Scheme.NVFP4: (7, 5),
    Scheme.MXFP4: (8, 0),
}
"""vLLM's own minimum for each scheme, weight-only kernels included (get_min_capability of its quantization configs)."""

_UNIT = {Scheme.FP8: "fp8", Scheme.INT8: "int8", Scheme.MXFP4: "fp4", Scheme.NVFP4: "fp4"}
"""The arithmetic unit that computes in the scheme; the others are widened to 16 bit first."""

_ONLINE = frozenset({Scheme.FP8, Scheme.INT8, Scheme.NVFP4})
"""What vLLM can make from wider weights while it loads."""

_BITS = {Scheme.BF16: 16, Scheme.FP16: 16, Scheme.FP8: 8, Scheme.INT8: 8, Scheme.INT4: 4, Scheme.MXFP4: 4}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The weights to load, and the decision with its reason."""

    variant: Variant
    decision: QuantizationDecision


@dataclass(frozen=True, kw_only=True)
class NotChosen:
    """Why no offered weights may run on the class; `departure` says where a wished exception stands."""

    check: Check
    field: str
    sentence: str
    departure: Departure = Departure.NONE
    revalidate: tuple[str, ...] = ()


def runs_on(scheme: Scheme, hardware: Hardware) -> bool:
    """Whether the engine has a kernel for weights of this scheme on this chip."""
    if hardware.compute_capability is not None:
        return hardware.compute_capability >= _NEEDS_CAPABILITY[scheme]
    unit = _UNIT.get(scheme)
    return unit is None or unit in hardware.flops or unit == "int8"


def computes_in(scheme: Scheme, hardware: Hardware) -> bool:
    """Whether the chip has arithmetic of this scheme, so that it saves time as well as memory."""
    unit = _UNIT.get(scheme)
    return scheme in UNQUANTIZED or (unit is not None and unit in hardware.flops)


def decide_quantization(question: Question, candidate: Candidate) -> Chosen | NotChosen:
    """The variant for a class: the user's, else the class's standard among those offered, else the unquantized one."""
    offered = _offered(question, candidate)
    picked = _pinned(question, candidate, offered) if question.pins.weights else _standard(question, candidate, offered)
    if isinstance(picked, NotChosen):
        return picked
    variant, departure, sentence = picked
    kv = _kv(question, candidate)
    if isinstance(kv, NotChosen):
        return kv
    scheme, kv_sentence = kv
    weights = _as_run(variant.weights, candidate.hardware)
    return Chosen(
        variant=variant,
        decision=QuantizationDecision(
            weights=weights,
            kv=scheme,
            source=variant.source,
            standard=candidate.standard_weights,
            departure=departure,
            sentence=sentence + (f"; {kv_sentence}" if kv_sentence else ""),
        ),
    )


_Picked = tuple[Variant, Departure, str]


def _offered(question: Question, candidate: Candidate) -> tuple[Variant, ...]:
    """The user's variants that the chip runs, and the standard made online where that is allowed."""
    offered = tuple(
        one for one in question.variants if runs_on(_as_run(one.weights, candidate.hardware), candidate.hardware)
    )
    wanted = [one for one in (question.pins.weights, candidate.standard_weights) if one in _ONLINE]
    base = next((one for one in offered if one.weights in UNQUANTIZED), None)
    if not (question.allow_online_quantization and base):
        return offered
    there = {one.weights for one in offered}
    made = [
        Variant(weights=scheme, source=base.source, facts=base.facts, online=True)
        for scheme in dict.fromkeys(wanted)
        if scheme is not None and scheme not in there and runs_on(scheme, candidate.hardware)
    ]
    return (*offered, *made)


def _as_run(scheme: Scheme, hardware: Hardware) -> Scheme:
    """Chips before compute capability 8.0 have no bf16; the engine runs such weights in fp16."""
    old = hardware.compute_capability is not None and hardware.compute_capability < (8, 0)
    return Scheme.FP16 if old and scheme is Scheme.BF16 else scheme


def _pinned(question: Question, candidate: Candidate, offered: tuple[Variant, ...]) -> _Picked | NotChosen:
    wanted = question.pins.weights
    variant = next((one for one in offered if one.weights is wanted), None)
    if variant is None:
        return _not_offered(question, candidate)
    if not _departs(variant, candidate):
        return variant, Departure.NONE, f"{variant.weights} weights, as {place(question, 'pins.weights')} says"
    return _with_evidence(question, candidate, variant)


def _not_offered(question: Question, candidate: Candidate) -> NotChosen:
    wanted, field = question.pins.weights, place(question, "pins.weights")
    if any(one.weights is wanted for one in question.variants):
        needs = ".".join(str(part) for part in _NEEDS_CAPABILITY[Scheme(str(wanted))])
        sentence = f"{field} is {wanted}, which class {candidate.name} cannot run: compute capability {needs} is needed"
    else:
        others = listed(sorted({str(one.weights) for one in question.variants}))
        sentence = (
            f"{field} is {wanted}, but the model is offered in {others}: add a variant in {wanted}, or set"
            f" {place(question, 'allow_online_quantization')} to Allow where the engine can make it"
        )
    return NotChosen(check=Check.VARIANT, field=field, sentence=sentence)


def _departs(variant: Variant, candidate: Candidate) -> bool:
    """Whether these weights need evidence on this class."""
    if variant.weights in UNQUANTIZED or variant.weights is candidate.standard_weights:
        return False
    published = PUBLISHED_AS.get(variant.facts.architecture)
    return candidate.standard_weights is not None and variant.weights is not published


def _standard(question: Question, candidate: Candidate, offered: tuple[Variant, ...]) -> _Picked | NotChosen:
    """Nothing is pinned: the standard, else the unquantized weights, else what there is."""
    if not offered:
        others = listed(sorted({str(one.weights) for one in question.variants}))
        return NotChosen(
            check=Check.VARIANT,
            field=place(question, "variants"),
            sentence=f"class {candidate.name} can run none of the weights that are offered ({others})",
        )
    standard = candidate.standard_weights
    for variant in offered:
        if variant.weights is standard:
            how = "made from wider weights while the engine loads" if variant.online else "offered by the model"
            return variant, Departure.NONE, f"{standard} weights: the standard of class {candidate.name}, {how}"
    if standard is None:
        return _narrowest(candidate, offered)
    plain = next((one for one in offered if not _departs(one, candidate)), None)
    if plain is not None:
        sentence = f"{plain.weights} weights: {standard}, the standard of class {candidate.name}, is not offered"
        return plain, Departure.NONE, sentence + ("" if plain.weights in UNQUANTIZED else "; it is as published")
    return _with_evidence(question, candidate, offered[0])


def _narrowest(candidate: Candidate, offered: tuple[Variant, ...]) -> _Picked:
    """The class has no standard: of the weights that the chip computes in, the narrowest."""
    native = [one for one in offered if computes_in(one.weights, candidate.hardware)] or list(offered)
    variant = min(native, key=lambda one: _BITS.get(one.weights, 4))
    sentence = f"{variant.weights} weights: class {candidate.name} states no standard, and these are the narrowest"
    return variant, Departure.NONE, sentence + " offered that the chip computes in"


def _with_evidence(question: Question, candidate: Candidate, variant: Variant) -> _Picked | NotChosen:
    """A departure: accepted, refused or expired by what evidence there is."""
    evidence, field = question.pins.evidence, place(question, "pins.evidence")
    what = f"{variant.weights} departs from {candidate.standard_weights}, the standard of class {candidate.name}"
    missing = (
        ["artifact", "evaluation", "engineVersion"]
        if evidence is None
        else [
            name
            for name, value in (
                ("artifact", evidence.artifact),
                ("evaluation", evidence.evaluation),
                ("engineVersion", evidence.engine_version),
            )
            if not value
        ]
    )
    if evidence is None or missing:
        return NotChosen(
            check=Check.QUANTIZATION,
            field=field,
            sentence=f"{what}, and {field} has no {listed(missing, 'or')}: an exception needs the evaluated artifact,"
            " the evaluation's result and the engine version it was made with",
            departure=Departure.REFUSED,
        )
    if evidence.engine_version != question.engine_version:
        return _expired(question, what, variant)
    sentence = (
        f"{variant.weights} weights: an exception from {candidate.standard_weights}, the standard of class"
        f" {candidate.name}, with the evaluation {evidence.evaluation} of {evidence.artifact} on engine"
        f" {evidence.engine_version}; it ends with that engine version"
    )
    return variant, Departure.ACCEPTED, sentence


def _expired(question: Question, what: str, variant: Variant) -> NotChosen:
    evidence = question.pins.evidence
    assert evidence is not None
    now = question.engine_version or "of an unknown version"
    again = (
        f"quality: repeat {evidence.evaluation} with {evidence.artifact} on engine {now}",
        f"kernels: that engine {now} loads {variant.weights} and picks a kernel for it, which its log says",
        "speed: calibrate one replica, since the profile belongs to the old engine",
    )
    return NotChosen(
        check=Check.QUANTIZATION,
        field=f"{place(question, 'pins.evidence')}.engineVersion",
        sentence=f"{what}, and its evidence is for engine {evidence.engine_version} while engine {now} would run:"
        " validate again, then write the new version",
        departure=Departure.EXPIRED,
        revalidate=again,
    )


def _kv(question: Question, candidate: Candidate) -> tuple[Scheme, str] | NotChosen:
    """The KV cache's scheme and a sentence about it, empty for the plain one."""
    plain = _as_run(Scheme.BF16, candidate.hardware)
    wanted, field = question.pins.kv, place(question, "pins.kv")
    scheme = wanted or candidate.standard_kv or plain
    if scheme in UNQUANTIZED:
        return plain, ""
    if not _keeps(scheme, candidate.hardware):
        if wanted is None:
            return plain, f"the KV cache stays {plain}: the chip has no {scheme} cache, the class's standard"
        sentence = f"{field} is {scheme}, for which the engine has no cache on class {candidate.name}; bf16 works"
        return NotChosen(check=Check.QUANTIZATION, field=field, sentence=sentence)
    if wanted is None or scheme is candidate.standard_kv or candidate.standard_kv is None:
        return scheme, f"the KV cache is {scheme}"
    evidence = question.pins.evidence
    if evidence and evidence.evaluation and evidence.engine_version == question.engine_version:
        return scheme, f"the KV cache is {scheme}, with evidence"
    sentence = f"{field} is {scheme}, not the standard {candidate.standard_kv} of class {candidate.name}, and has no"
    return NotChosen(
        check=Check.QUANTIZATION,
        field=field,
        sentence=f"{sentence} evidence for engine {question.engine_version or 'of this version'}",
        departure=Departure.REFUSED,
    )


def _keeps(scheme: Scheme, hardware: Hardware) -> bool:
    """Whether the engine has a KV cache of this scheme on this chip: fp8 from Triton's kernels on, nvfp4 natively."""
    capability = hardware.compute_capability
    if scheme is Scheme.FP8:
        return capability is None or capability >= (8, 0)
    return scheme is Scheme.NVFP4 and "fp4" in hardware.flops
