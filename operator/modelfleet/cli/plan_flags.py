"""The question that flags ask about a bare model: no manifest is needed for a first look."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from modelfleet.api.strings import EngineVersion
from modelfleet.api.values import PositiveDuration, Rate, Share
from modelfleet.cli.cases import class_entry
from modelfleet.cli.catalog import manifest
from modelfleet.cli.fields import RowError, clipped
from modelfleet.core.layout.question import Candidate, LengthRegime, NodeRoom, Objective, Question, Variant
from modelfleet.core.layout.wording import listed
from modelfleet.core.model.facts import ModelFacts, Scheme

T = TypeVar("T")
Rooms = Callable[[str, Mapping[str, str], str], tuple[NodeRoom, ...] | None]
"""From a class, its node selector and its resource to its nodes; None is "not known"."""

_LENGTHS = re.compile(r"(\d{1,9})(?:,(\d{1,9}))?:(\d{1,9})(?:,(\d{1,9}))?")
_FIELDS = {
    "objectives": "the flags",
    **{f"objectives[0].{key}": f"--{key}" for key in ("ttft", "tpot", "share", "lengths")},
    **{
        f"objectives[0].lengths.{side}.{share}": f"{share} of {what} in --lengths"
        for side, what in (("inputTokens", "prompts"), ("outputTokens", "answers"))
        for share in ("p50", "p95")
    },
    "objectives[0].load": "--load",
    "candidates": "--class",
    "variants": "--model",
    "max_context_tokens": "--max-context",
    "pins.weights": "--weights",
    "pins.evidence": "spec.quantization.evidence of a manifest (plan -f FILE; no flag states it)",
    "engine_version": "--engine-version",
}


class AskError(ValueError):
    """A question that cannot be asked; the message is a sentence for the user."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that take the place of a manifest's spec."""
    group = parser.add_argument_group("for a bare model, in place of a manifest")
    group.add_argument("--ttft", metavar="TIME", help="time to the first token, such as 500ms")
    group.add_argument("--tpot", metavar="TIME", help="time per output token, such as 50ms")
    group.add_argument("--share", default="99%", metavar="SHARE", help="of requests inside both; default: 99%%")
    group.add_argument("--load", metavar="RATE", help="requests a second, such as 12 or 0.5")
    group.add_argument("--concurrency", metavar="N", help="requests in flight, in place of --load")
    group.add_argument(
        "--lengths",
        metavar="IN:OUT",
        help="tokens of prompts and answers as p50,p95:p50,p95, such as 900,4000:250,800; 900:250 for fixed lengths",
    )
    group.add_argument("--weights", metavar="LIST", help="offered, such as bf16,fp8; default: the published ones")
    group.add_argument("--engine-version", default="", metavar="VERSION", help="of vLLM, such as 0.32.0")
    group.add_argument("--max-context", type=int, metavar="N", help="the longest context; default: the model's own")


def question_of(arguments: argparse.Namespace, facts: ModelFacts, classes: Sequence[str], rooms: Rooms) -> Question:
    """The question of the flags; `rooms` gives the nodes of a class. Raises AskError."""
    missing = [flag for flag in ("ttft", "tpot", "lengths") if getattr(arguments, flag) is None]
    if missing or not classes:
        wanted = [f"--{flag}" for flag in (*missing, *([] if classes else ["class"]))]
        are = "is" if len(wanted) == 1 else "are"
        raise AskError(
            f"a bare model needs a promise, and {listed(wanted)} {are} not given; write for example --class h100-sxm"
            " --ttft 500ms --tpot 50ms --load 12 --lengths 900,4000:250,800"
        )
    return Question(
        variants=tuple(_variants(arguments.weights, facts)),
        candidates=tuple(candidate(name, rooms) for name in classes),
        objectives=(_objective(arguments),),
        max_context_tokens=arguments.max_context,
        engine_version=_engine_version(arguments.engine_version.removeprefix("v")),
        fields=_FIELDS,
    )


def candidate(name: str, rooms: Rooms) -> Candidate:
    """A class of the catalogue as the planner sees it."""
    try:
        entry = class_entry(name)
    except RowError as error:
        raise AskError(f"--{error}") from error
    spec = manifest(entry)["spec"]
    return Candidate(
        name=entry.hardware.name,
        hardware=entry.hardware,
        nodes=rooms(entry.hardware.name, spec["nodeSelector"], spec["resourceName"]),
        standard_weights=entry.standard_weights,
        standard_kv=entry.standard_kv,
    )


def _variants(stated: str | None, facts: ModelFacts) -> Iterator[Variant]:
    """The weights that --weights offers, else those of the published checkpoint."""
    for word in dict.fromkeys((stated or facts.native.value).lower().split(",")):
        try:
            scheme = Scheme(word.strip())
        except ValueError as error:
            raise AskError(f"--weights: {clipped(word)} is none of {', '.join(Scheme)}") from error
        stored = facts
        if scheme is not facts.native:
            stored = replace(
                facts, native=scheme, quantized_attention=True, quantized_head=False, checkpoint_bytes=None
            )
        yield Variant(weights=scheme, source=f"{facts.name} in {scheme}", facts=stored)


def _objective(arguments: argparse.Namespace) -> Objective:
    if (arguments.load is None) == (arguments.concurrency is None):
        raise AskError("--load: give either --load, requests a second, or --concurrency, requests in flight")
    rate = _value("--load", Rate, arguments.load) if arguments.load is not None else None
    return Objective(
        name="promise",
        ttft_s=_value("--ttft", PositiveDuration, arguments.ttft).seconds,
        tpot_s=_value("--tpot", PositiveDuration, arguments.tpot).seconds,
        share=float(_value("--share", Share, arguments.share).fraction),
        load_rps=None if rate is None else float(rate.per_second),
        load_concurrency=None if rate is not None else _in_flight(arguments.concurrency),
        lengths=_lengths(arguments.lengths),
    )


def _value(flag: str, kind: Callable[[str], T], text: str) -> T:
    try:
        return kind(text)
    except ValueError as error:
        raise AskError(f"{flag}: {error}") from error


def _engine_version(text: str) -> str:
    return str(_value("--engine-version", EngineVersion, text)) if text else ""


def _in_flight(text: str) -> float:
    if not re.fullmatch(r"[1-9]\d{0,6}", text):
        raise AskError("--concurrency: must be a whole number of requests from 1 to 9999999, such as 64")
    return float(text)


def _lengths(text: str) -> LengthRegime:
    match = _LENGTHS.fullmatch(text)
    if not match or "0" in (match[1], match[3]):
        raise AskError("--lengths: write p50,p95:p50,p95 of prompts and answers, such as 900,4000:250,800")
    prompt, prompt_p95, output, output_p95 = (int(part) if part else None for part in match.groups())
    for what, half, most in (("prompts", prompt, prompt_p95), ("answers", output, output_p95)):
        if half is not None and most is not None and most < half:
            raise AskError(f"--lengths: p95 of the {what} is {most}, below their p50 ({half}); p95 is at least p50")
    return LengthRegime(
        input_p50_tokens=prompt or 1,
        input_p95_tokens=prompt_p95 or prompt or 1,
        output_p50_tokens=output or 1,
        output_p95_tokens=output_p95 or output or 1,
    )
