"""`modelfleet calibrate NAME`: drives one replica to its knee and writes what it did to a ModelProfile."""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from modelfleet.api import names
from modelfleet.cli import kubectl
from modelfleet.cli.calibrate_case import Access, Subject, access, check_scaling, subject_of
from modelfleet.cli.calibrating import CalibrateError, Measured, MixedError, Run, measure
from modelfleet.cli.kubectl import KubectlError
from modelfleet.cli.models import ModelError
from modelfleet.cli.open_loop import Replica, prefix_of
from modelfleet.cli.plan_flags import AskError
from modelfleet.cli.plan_text import columns, headed, wrapped
from modelfleet.cli.terminal import Output, show
from modelfleet.cli.yaml_io import MissingExtraError, UnreadableError, dump
from modelfleet.core.calibration import Goal, Knee, knee_of
from modelfleet.core.inputs import promised
from modelfleet.core.layout.wording import seconds
from modelfleet.core.perf.cells import corrected_s, fit, pooled
from modelfleet.core.profile_object import Found, KneeFound, case_of, manifest, spec_of
from modelfleet.core.profile_object import Subject as Profiled

BY = "modelfleet calibrate"
_LEAST_STEPS = 10.0
"""The engine was warm: so many steps of a composition say enough."""
_LEAST_STEP_S, _MOST_S = 0.1, 86_400.0


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "calibrate",
        help="drive one replica to its knee and keep what was measured in a ModelProfile",
        description="Sends requests of the declared lengths to one replica, at rates that rise until its promise"
        " breaks, and writes step times, KV tokens and the knee to a ModelProfile, which later plans use. The replica"
        " must have no other traffic: where it has, nothing is sent, and where some comes, it ends at once. 0:"
        " measured; 1: no rate keeps the promise, or others' requests came; 2: it could not be done.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the ModelDeployment")
    kubectl.add_flags(parser)
    add = parser.add_argument
    add("-f", "--file", action="append", default=[], metavar="FILE",
        help="the ModelDeployment and its AcceleratorClasses, in place of the cluster's; needs --url")  # fmt: skip
    add("--model", metavar="MODEL", help="with -f: the model's config.json or a known name")
    add("--pod", metavar="POD", help="the replica's pod; default: a ready one")
    add("--url", metavar="URL", help="where the replica answers, in place of a pod through kubectl")
    add("--metrics-url", metavar="URL", help="with --url: its worker's status port (8001)")
    add("--step", type=float, default=60.0, metavar="SECONDS", help="of load at each rate, at least; default: 60")
    add("--limit", type=float, default=1800.0, metavar="SECONDS", help="of all rates together; default: 1800")
    add("--watch", type=float, default=5.0, metavar="SECONDS",
        help="how long it is looked for others' requests before; default: 5")  # fmt: skip
    add("--seed", type=int, default=1, metavar="N", help="of lengths and arrivals; default: 1")
    add("--profile", metavar="NAME", help="the ModelProfile's name; default: NAME-calibrated-DIGEST")
    add("--dry-run", action="store_true", help="print the ModelProfile, and write nothing")
    add("--force", action="store_true", help="go on though others' requests come or replicas may be bought")
    add("-o", "--output", type=Output, choices=list(Output), default=Output.TABLE, metavar="FORMAT",
        help="table, json or yaml; default: table")  # fmt: skip
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measures, writes and prints. 0: done; 1: no knee, or others' requests came; 2: it could not be done."""
    try:
        _check(arguments)
        subject = subject_of(arguments)
        if not arguments.force:
            check_scaling(subject)
        with access(arguments) as way:
            measured = asyncio.run(measure(_run(arguments, subject, way)))
        result = Result(subject, measured, arguments)
        if result.knee is None:
            show("\n".join(result.table()))
            raise MixedError(f"no rate keeps the promise of {subject.deployment.metadata.name}; nothing is written")
        written = not (arguments.dry_run or arguments.file)
        if written:
            kubectl.apply(arguments, result.manifest)
        show(result.printed(arguments.output, written=written))
    except MixedError as error:
        print(f"modelfleet calibrate: {error}", file=sys.stderr)
        return 1
    except (AskError, CalibrateError, KubectlError, MissingExtraError, ModelError, UnreadableError) as error:
        print(f"modelfleet calibrate: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("modelfleet calibrate: it was stopped; nothing is written", file=sys.stderr)
        return 2
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if (arguments.name is None) == (not arguments.file):
        raise CalibrateError("give the name of a ModelDeployment, or a file that holds one with -f and --url")
    if arguments.file and not arguments.url:
        raise CalibrateError("--url: is missing; with -f no cluster is asked, so say where the replica answers")
    if arguments.metrics_url and not arguments.url:
        raise CalibrateError("--metrics-url: goes with --url; a pod's page is found by itself")
    for name, least in (("step", _LEAST_STEP_S), ("limit", _LEAST_STEP_S), ("watch", 0.0)):
        value = getattr(arguments, name)
        if not least <= value <= _MOST_S:
            raise CalibrateError(f"--{name}: {value:g} must be from {least:g} to {_MOST_S:.0f} seconds")


def _run(arguments: argparse.Namespace, subject: Subject, way: Access) -> Run:
    deployment = subject.deployment
    replica = Replica(url=way.url, served_name=deployment.served_names[0], prefix=prefix_of(deployment, arguments.seed))
    return Run(
        deployment=deployment,
        replica=replica,
        page_url=way.page_url,
        goal=goal_of(subject),
        step_s=arguments.step,
        limit_s=arguments.limit,
        watch_s=arguments.watch,
        alone=not arguments.force,
        seed=arguments.seed,
        told=_progress,
    )


def goal_of(subject: Subject) -> Goal:
    """The strictest share of the objectives, and the load that the plan gives one replica."""
    planned = subject.plan.planned
    if planned is None or not planned.hosted.load_rps:
        raise CalibrateError(
            f"the plan of {subject.deployment.metadata.name} predicts nothing, because class {subject.plan.class_name}"
            " states no memory, memoryBandwidth and compute; state them, and there is something to correct"
        )
    share = max(float(each.share.fraction) for each in subject.deployment.spec.objectives)
    return Goal(share=share, target_rps=planned.hosted.load_rps / max(planned.replicas, 1))


class Result:
    """What was measured, as an object and as text. Raises CalibrateError where the engine told of no step."""

    def __init__(self, subject: Subject, measured: Measured, arguments: argparse.Namespace) -> None:
        self._subject, self._measured = subject, measured
        self._goal = goal_of(subject)
        self.knee: Knee | None = knee_of(measured.steps, self._goal)
        case, profiled = (
            case_of(subject.plan, subject.kind, subject.facts),
            Profiled.of(subject.deployment, subject.plan),
        )
        self._cells = pooled(measured.cells, _LEAST_STEPS)
        profile = fit(case, measured.lengths, self._cells, measured.light) if case is not None else None
        if profile is None or case is None or profiled is None:
            raise CalibrateError(
                f"the worker's page told of no composition with {_LEAST_STEPS:.0f} steps; give a longer --step"
            )
        self._case, self.profile = case, replace(profile, kv_tokens=measured.kv_tokens)
        found = Found(subject=profiled, profile=self.profile, knee=self._knee_found())
        deployment = subject.deployment
        name = arguments.profile or names.calibrated_profile(deployment.metadata.name, profiled.key)
        namespace = arguments.namespace or getattr(deployment.metadata, "namespace", None)
        metadata = {"name": name, **({"namespace": str(namespace)} if namespace else {})}
        self.manifest = manifest(metadata, spec_of(found, BY, self._note()))

    def printed(self, output: Output, *, written: bool) -> str:
        """The result in a format."""
        match output:
            case Output.JSON:
                return json.dumps({**self.document(), "written": written}, indent=2, ensure_ascii=False)
            case Output.YAML:
                return dump(self.manifest)
        name = self.manifest["metadata"]["name"]
        said = f"ModelProfile {name} is written" if written else f"Nothing is written; ModelProfile {name} would be:"
        how = "; plans made from now on use it, and another word in spec.replan has one made" if written else ""
        return "\n".join([*self.table(), "", *wrapped(f"{said}{how}"), *([] if written else [dump(self.manifest)])])

    def document(self) -> dict[str, Any]:
        """All figures as JSON values."""
        return {
            "steps": [
                {
                    "requestsPerSecond": round(each.rate_rps, 4),
                    "requests": each.counted,
                    "share": round(each.share, 4),
                    "ttft_s": each.ttft_s,
                    "tpot_s": each.tpot_s,
                    "inFlight": round(each.running, 3),
                }
                for each in self._measured.steps
            ],
            "curve": [
                {"decodeSequences": cell.sequences, "prefillTokens": cell.tokens, "steps": cell.steps,
                 "measured_s": cell.mean_s, "corrected_s": self._corrected_s(cell.sequences, cell.tokens)}
                for cell in self._cells.values()
            ],
            "lengths": {"inputTokens": self._measured.lengths.input_tokens,
                        "outputTokens": self._measured.lengths.output_tokens},
            "whole": self._measured.whole,
            "profile": self.manifest,
        }  # fmt: skip

    def table(self) -> Iterator[str]:
        """The rates, the steps' curve, and the sentence."""
        yield from headed("Rates")
        rows = [
            (f"{each.rate_rps:.3g}", str(each.counted), f"{each.share * 100:.1f} %", f"{each.running:.1f}",
             _time(each.ttft_s), _time(each.tpot_s))
            for each in self._measured.steps
        ]  # fmt: skip
        yield from columns(("requests a second", "requests", "kept", "in flight", "ttft, mean", "tpot, mean"), rows)
        yield from headed("Steps of the engine")
        curve = [
            (f"{cell.sequences:.1f}", f"{cell.tokens:.0f}", f"{cell.steps:.0f}", _time(cell.mean_s),
             _time(self._corrected_s(cell.sequences, cell.tokens)))
            for cell in self._cells.values()
        ]  # fmt: skip
        yield from columns(("sequences", "prompt tokens", "steps", "measured", "by the profile"), curve)
        yield from wrapped("  " + self._note())
        for why, count in Counter(self._measured.failures).most_common(3):
            yield from wrapped(f"  {count} requests failed: {why}")

    def _corrected_s(self, sequences: float, tokens: float) -> float:
        return corrected_s(self._case, self._measured.lengths, self.profile, sequences, tokens)

    def _knee_found(self) -> KneeFound | None:
        """Without a rate that broke nothing is known but that the knee is above: as a knee it would buy replicas."""
        if self.knee is None or self.knee.broken_rps is None:
            return None
        promise = promised(self._subject.deployment)
        return KneeFound(
            promise=promise, rps=self.knee.rps, uncertainty=self.knee.uncertainty, samples=self.knee.samples
        )

    def _note(self) -> str:
        share, steps = self._goal.share * 100, self._measured.steps
        ended = "" if self._measured.whole else "; --limit ended it early"
        if self.knee is None:
            return f"none of {len(steps)} rates kept the promise for {share:.6g} % of the requests{ended}"
        knee = self.knee
        above = (
            f"{knee.broken_rps:.3g} was not" if knee.broken_rps is not None else "none broke, so the knee is not known"
        )
        return (
            f"one replica, {len(steps)} rates: {knee.kept_rps:.3g} requests a second were kept for {share:.6g} % of the"
            f" requests, {above}; the plan gives a replica {self._goal.target_rps:.3g}{ended}"
        )


def _time(value_s: float | None) -> str:
    return seconds(value_s) if value_s is not None else "-"


def _progress(number: int, rate_rps: float, part: float) -> None:
    """A bar for people, else a line a rate; on standard error."""
    if sys.stderr.isatty():
        bar = "#" * round(30 * part)
        end = "\n" if part >= 1 else ""
        print(f"\r[{bar:<30}] rate {number}: {rate_rps:.3g} requests a second ", end=end, file=sys.stderr, flush=True)
    elif part >= 1:
        print(f"rate {number}: {rate_rps:.3g} requests a second: done", file=sys.stderr, flush=True)
