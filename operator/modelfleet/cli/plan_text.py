"""A plan as text for a terminal: the same view as the page, without the curve. Pure."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from modelfleet.cli.report.bars import Bars
from modelfleet.cli.report.view import Fact, Page, RejectedRow, page_of
from modelfleet.cli.report.words import told
from modelfleet.core.layout.answer import Answer
from modelfleet.core.layout.question import Question

_WIDTH = 110
_BAR = 60
_MARKS = {"c1": "█", "c2": "▓", "c4": "▚", "c5": "▒", "c3": "░", "c6": " "}
_SHOWN = 20


def text(name: str, question: Question, answer: Answer) -> str:
    """The plan as lines."""
    return "\n".join(_lines(page_of(name, question, answer))).rstrip() + "\n"


def _lines(page: Page) -> Iterator[str]:
    yield page.name
    yield from wrapped("  " + page.verdict)
    yield from _section("Wrong or worth knowing", map(told, page.problems))
    yield from _section("Why", (f"{one.check}: {one.sentence}" for one in page.reasons))
    yield from _predicted(page)
    if page.memory is not None:
        yield from _memory(page.memory)
    if len(page.classes) > 1:
        yield from headed("What each class would take")
        yield from columns(
            ("class", "layout", "weights", "replicas", "accelerators", "cost"),
            [(one.name, one.layout, one.weights, one.replicas, one.accelerators, one.cost) for one in page.classes],
        )
    if page.offers:
        yield from _section("What would work near this", (f"{one.change}: {one.sentence}" for one in page.offers))
    if page.rejected:
        yield from _rejected(page.rejected)
    yield from _facts("Quantization and speculation", page.weights)
    yield from _facts("Engine settings", page.engine)
    if page.economics:
        yield from _facts("Economics", page.economics.rows)
        yield from wrapped("  " + page.economics.sentence)


def _predicted(page: Page) -> Iterator[str]:
    if not page.tiles:
        return
    yield from headed("Figures")
    width = max(len(tile.name) for tile in page.tiles)
    value = max(len(tile.value) for tile in page.tiles)
    for tile in page.tiles:
        yield f"  {tile.name:<{width}}  {tile.value:>{value}}  {tile.note}".rstrip()
    if page.curve is not None:
        target = page.curve.target_text
        yield from wrapped(f"  {target[0].upper()}{target[1:]}; {page.curve.knee_text}.")
    yield from wrapped("  " + page.footer)


def _memory(bars: Bars) -> Iterator[str]:
    yield from headed("Memory of one accelerator")
    for row in bars.rows:
        drawn = "".join(_MARKS[part.colour] * round(part.percent * _BAR / 100) for part in row.parts)
        yield f"  │{drawn[:_BAR]:<{_BAR}}│ {row.value} {row.label}"
    legend = (f"{_MARKS[part.colour].strip() or '(blank)'} {part.name} {part.value}".rstrip() for part in bars.legend)
    yield from wrapped("  " + "   ".join(legend))
    yield from wrapped("  " + bars.note)


def _rejected(rows: Sequence[RejectedRow]) -> Iterator[str]:
    yield from headed("Rejected layouts")
    yield from columns(
        ("class", "layout", "check", "why not"),
        [(row.class_name, row.layout, row.check, row.sentence) for row in rows[:_SHOWN]],
    )
    if rows[_SHOWN:]:
        yield f"  and {len(rows) - _SHOWN} more; -o json and -o html have all"


def _facts(title: str, rows: Sequence[Fact]) -> Iterator[str]:
    if not rows:
        return
    yield from headed(title)
    width = max(len(row.name) for row in rows)
    for row in rows:
        first, *rest = textwrap.wrap(row.value, _WIDTH - width - 4) or [""]
        yield f"  {row.name:<{width}}  {first}".rstrip()
        yield from (" " * (width + 4) + line for line in rest)


def _section(title: str, sentences: Iterable[str]) -> Iterator[str]:
    found = list(sentences)
    if found:
        yield from headed(title)
        for sentence in found:
            yield from wrapped(f"  - {sentence}", "    ")


def headed(title: str) -> Iterator[str]:
    """A blank line and a title."""
    yield ""
    yield title


def wrapped(sentence: str, rest: str = "  ") -> list[str]:
    """A sentence as lines; its own leading blanks indent the first, `rest` the others."""
    text = sentence.lstrip(" ")
    first = sentence[: len(sentence) - len(text)]
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table whose last column takes the rest of the line and wraps."""
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header) - 1)]
    indent = 2 + sum(widths) + 2 * len(widths)
    for row in (header, *rows):
        start = "  " + "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        lines = textwrap.wrap(row[-1], max(_WIDTH - indent, 40)) or [""]
        yield (start + lines[0]).rstrip()
        yield from (" " * indent + line for line in lines[1:])
