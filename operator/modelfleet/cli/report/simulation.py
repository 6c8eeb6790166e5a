"""A simulation as a page: shares against accelerator-hours, replicas over time. Pure but for jinja2."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

from modelfleet.cli.report.curve import Tick
from modelfleet.cli.report.page import template

_COLOURS = ("c2", "c3", "c4", "c5")
_PEERS = 3  # drawn: more lines than that are a tangle; the table has all
_LATE = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


@dataclass(frozen=True)
class Line:
    """A curve in a square of 100 × 100 with y downwards, and its points for the eye."""

    name: str
    colour: str
    points: str
    dots: tuple[tuple[float, float, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Lines on axes. `level` is a horizontal line, in percent from above, or None."""

    lines: tuple[Line, ...]
    xs: tuple[Tick, ...]
    ys: tuple[Tick, ...]
    level: float | None
    spoken: str

    @property
    def widest(self) -> str:
        """The longest text of the vertical axis, which makes its room."""
        return max((tick.text for tick in self.ys), key=len, default="")


@dataclass(frozen=True, kw_only=True)
class Course:
    """Our policy over time on the first seed: (second, serving, provisioned), and the load as replicas at the knee."""

    steps: Sequence[tuple[float, int, int]]
    load: Sequence[tuple[float, float]]


def html(document: Mapping[str, Any], course: Course | None) -> str:
    """The page, without any outside part. Raises MissingExtraError without jinja2."""
    text: str = template("simulation.html.j2").render(
        world=document["world"],
        rows=_rows(document),
        shares=_shares(document),
        course=None if course is None else _course(course),
    )
    return text


def _rows(document: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = []
    for one in document["policies"]:
        shipped = one["asShipped"] or {}
        rows.append(
            {
                "name": one["policy"],
                "knows": "" if one["causal"] else "knows the trace",
                "share": _figure(shipped.get("share"), ".4f"),
                "hours": _figure(shipped.get("acceleratorHours"), ".2f"),
                "good": _figure(shipped.get("goodRequestsPerAcceleratorHour"), ",.0f"),
                "worst": _figure(shipped.get("worst5MinutesShare"), ".3f"),
                "actions": _figure(shipped.get("scaleActions"), ".0f"),
                "promise": _figure(one["acceleratorHoursAtPromise"], ".2f"),
                "ours": _figure(one["acceleratorHoursAtOurShare"], ".2f"),
            }
        )
    return rows


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _shares(document: Mapping[str, Any]) -> Plot:
    """What is late, on a scale by its logarithm, against accelerator-hours by theirs."""
    chosen = _chosen(document["policies"])
    hours = [p["acceleratorHours"] for one in chosen for p in one["points"] if p["acceleratorHours"] > 0] or [1.0]
    low, high = min(hours) / 1.1, max(hours) * 1.1
    across = log10(high / low)

    def place(point: Mapping[str, Any]) -> tuple[float, float]:
        return round(100 * log10(max(point["acceleratorHours"], low) / low) / across, 2), _depth(1 - point["share"])

    lines = []
    peers = iter(_COLOURS)
    for index, one in enumerate(chosen):
        found = sorted({place(point): point for point in one["points"]}.items())
        dots = tuple((x, y, f"{one['policy']} {p['parameter']}: {p['share']:.4f}") for (x, y), p in found)
        colour = "ours" if not index else next(peers) if one["causal"] else "soft"
        lines.append(Line(one["policy"], colour, " ".join(f"{x},{y}" for (x, y), _ in found), dots))
    return Plot(
        lines=tuple(lines),
        xs=tuple(Tick(round(100 * log10(each / low) / across, 2), f"{each:g}") for each in _round(low, high)),
        ys=tuple(Tick(round(100 - _depth(late), 2), f"{late:.4g}") for late in _LATE),
        level=_depth(1 - document["world"]["share"]),
        spoken="Share of late requests against accelerator-hours, of each policy",
    )


def _chosen(policies: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Ours, or the first where ours was not asked for; the cheapest peers at our share; what knows the trace."""
    mine = next((one for one in policies if one["policy"] == "modelfleet"), policies[0])
    peers = [one for one in policies if one["causal"] and one is not mine]
    peers.sort(key=lambda one: one["acceleratorHoursAtOurShare"] or float("inf"))
    return [mine, *peers[:_PEERS], *(one for one in policies if not one["causal"] and one is not mine)]


def _depth(late: float) -> float:
    """From above, in percent: all late is at the top, a thousandth at the bottom."""
    return round(min(100.0, max(0.0, -100 * log10(max(late, 1e-9)) / 3)), 2)


def _round(low: float, high: float) -> list[float]:
    """Round values between two, some on each decade."""
    found = [step * 10.0**power for power in range(floor(log10(low)), floor(log10(high)) + 1) for step in (1, 2, 5)]
    return [value for value in found if low <= value <= high]


def _course(course: Course) -> Plot:
    until = max(course.steps[-1][0], 1.0)
    most = max(max(step[2] for step in course.steps), max((load for _, load in course.load), default=0.0)) * 1.08 + 0.5

    def line(points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{100 * at / until:.2f},{100 - 100 * value / most:.2f}" for at, value in points)

    unit = next(each for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000) if most / each <= 8)
    return Plot(
        lines=(
            Line("load, in replicas at their knee", "soft", line(course.load)),
            Line("started or serving", "c2", line(_stairs([(at, paid) for at, _, paid in course.steps]))),
            Line("serving", "ours", line(_stairs([(at, serving) for at, serving, _ in course.steps]))),
        ),
        xs=tuple(Tick(10.0 * part, f"{until / 3600 * part / 10:.3g} h") for part in range(0, 11, 2)),
        ys=tuple(Tick(round(100 * value / most, 2), f"{value}") for value in range(0, int(most) + 1, unit)),
        level=None,
        spoken="Replicas over time under our policy, and the load",
    )


def _stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Changes only, each with a corner."""
    found = [points[0]]
    for at, value in points[1:]:
        if value != found[-1][1]:
            found += [(at, found[-1][1]), (at, value)]
    return [*found, (points[-1][0], found[-1][1])]
