"""What was measured of some rows of a table, as corrections for the others of the same kind.

A group is what a correction carries over to: one architecture (of one size) on one class with one engine, whatever the
layout, the precision and the lengths.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from modelfleet.cli.cases import Asked, Lookup, asked
from modelfleet.cli.fields import Cells, RowError, number
from modelfleet.cli.tables import Format, Row, TableError, csv_rows, format_of, header_of, json_rows, reading
from modelfleet.cli.yaml_io import UnreadableError, json_value
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.profile import Observation, Profile, calibrate
from modelfleet.core.perf.serving import predict

MOST_ROWS = 8
"""More of one group are passed over: with eight, a correction is as good as the aims of the planner ask for."""
_LONGEST_MS = 86_400_000.0

Profiles = Mapping[str, Profile]


class _Group(BaseModel):
    """A line of a profile's file."""

    model_config = ConfigDict(extra="forbid")
    group: str
    prefill: float = Field(gt=0, le=100)
    decode: float = Field(gt=0, le=100)
    overhead: float = Field(gt=0, le=100)
    prefill_samples: int = Field(ge=0)
    decode_samples: int = Field(ge=0)
    uncertainty: tuple[float, float]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    groups: list[_Group]


def group_of(case: Case) -> str:
    """The group of a case, in one word."""
    facts = case.facts
    return f"{facts.architecture}-{facts.layers}x{facts.hidden}/{case.hardware.name}/{case.setup.engine}"


def measured_profiles(name: str, find: Lookup) -> Profiles:
    """Corrections from a table of measured rows. Raises TableError, with the line of a row that cannot be used."""
    seen: dict[str, list[Observation]] = {}
    passed_over = 0
    for row in _rows(name):
        try:
            question = _question(row, find)
            observation = _observation(row.cells, question)
        except RowError as error:
            raise TableError(f"{name}: line {row.line}: {error}") from error
        group = seen.setdefault(group_of(question.case), [])
        if len(group) < MOST_ROWS and not predict(question.case, question.lengths, question.load).saturated:
            group.append(observation)
        else:
            passed_over += 1
    if passed_over:
        print(
            f"modelfleet: {name}: {passed_over} rows are passed over: more than {MOST_ROWS} of their group, or past"
            " what the replica can take",
            file=sys.stderr,
        )
    return {group: calibrate(found) for group, found in seen.items() if found}


def _question(row: Row, find: Lookup) -> Asked:
    if row.fault:
        raise RowError(row.fault)
    return asked(row.cells, find)


def _rows(name: str) -> Iterator[Row]:
    with reading(name) as stream:
        if format_of(name, None) is Format.JSONL:
            yield from json_rows(stream, name)
            return
        header, reader = header_of(stream, name)
        missing = [one for one in ("model", "class", "ttft_ms", "tpot_ms") if one not in header]
        if missing:
            raise TableError(f"{name}: the column {missing[0]} is needed; there are: {', '.join(header)[:120]}")
        yield from csv_rows(header, reader, name)


def _observation(cells: Cells, question: Asked) -> Observation:
    if question.load.concurrency is None:
        raise RowError("concurrency: is empty; a measured row needs the requests that were in flight")
    times = [number(cells, column, _LONGEST_MS, of="milliseconds") for column in ("ttft_ms", "tpot_ms")]
    if times == [None, None]:
        raise RowError("ttft_ms: is empty, and so is tpot_ms; write what was measured")
    ttft_s, tpot_s = (None if value is None else value / 1000 for value in times)
    return Observation(
        case=question.case,
        lengths=question.lengths,
        concurrency=question.load.concurrency,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
    )


def save(profiles: Profiles, name: str) -> None:
    """Writes corrections to a file. Raises TableError."""
    groups = [
        _Group(
            group=group,
            prefill=profile.prefill,
            decode=profile.decode,
            overhead=profile.overhead,
            prefill_samples=profile.prefill_samples,
            decode_samples=profile.decode_samples,
            uncertainty=profile.uncertainty,
        )
        for group, profile in profiles.items()
    ]
    try:
        Path(name).write_text(_File(groups=groups).model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise TableError(f"{name}: {(error.strerror or str(error)).lower()}") from error


def load(name: str) -> Profiles:
    """Corrections as `save` wrote them. Raises TableError."""
    try:
        found = _File.model_validate(json_value(Path(name).read_bytes()))
    except OSError as error:
        raise TableError(f"{name}: {(error.strerror or str(error)).lower()}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).lstrip(".")
        raise TableError(f"{name}: {place}: {first['msg'].lower()}; write it with --save-profile") from error
    except UnreadableError as error:
        raise TableError(f"{name}: {error}; write it with --save-profile") from error
    return {one.group: Profile(**one.model_dump(exclude={"group"})) for one in found.groups}
