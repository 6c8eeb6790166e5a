"""The film of a model that goes to zero and comes back: what stands, what is done, what is said, look by look."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import START, condition
from modelfleet.core.effects import Apply, Create, Delete, Effect, Lift
from zero_site import SLICE, Site

FILM = Path(__file__).parent / "stories" / "zero-film.txt"
_SILENT = {"ConfigMap", "ControllerRevision", "PodDisruptionBudget"}


def _done(effects: tuple[Effect, ...]) -> Iterator[str]:
    for effect in effects:
        match effect:
            case Create(manifest) if manifest["kind"] not in _SILENT:
                yield f"creates {manifest['kind']} {manifest['metadata']['name']}"
            case Apply(manifest, _) if manifest["kind"] == "Pod":
                label = manifest["metadata"]["labels"]["modelfleet.dev/serving"]
                yield f"{'puts into' if label == 'true' else 'takes out of'} the Service {manifest['metadata']['name']}"
            case Apply(manifest, _) | Create(manifest) if manifest["kind"] == "ConfigMap":
                yield "remembers"
            case Delete(_, kind, name, _) if kind not in _SILENT:
                yield f"deletes {kind} {name}"
            case Lift(name, _):
                yield f"places {name}"


def _frame(site: Site) -> list[str]:
    stands = f"{site.serving()} of {len(site.pods())} pods serve" + (", slice" if SLICE in site.objects else "")
    seconds = (site.now - START).total_seconds()
    outcome = site.look()
    status = outcome.status
    zero, available, moves = status["toZero"], condition(status, "Available"), condition(status, "Progressing")
    said = f"{zero['state']}; Available {available[0]} {available[1]}; Progressing {moves[0]} {moves[1]}: {moves[2]}"
    done = sorted(set(_done(outcome.effects)))
    return [f"{seconds:5.0f} s  {stands}", *(f"         {each}" for each in done), f"         says {said}"]


def _film() -> Iterator[str]:
    site, before = Site(), ""
    acts = {190.0: ("sixty requests come", 60), 340.0: ("one comes while they drain", 1)}
    for _ in range(100):
        seconds = (site.now - START).total_seconds()
        if seconds in acts:
            told, requests = acts[seconds]
            site.hold("a1", requests)
            yield f"       -- {told}"
        frame = _frame(site)
        if frame[1:] != [before]:  # what only goes on is left out
            yield from frame
        before = frame[-1]
        site.tick(5)


def test_to_zero_and_back(request: pytest.FixtureRequest) -> None:
    said = "\n".join(_film()) + "\n"
    if request.config.getoption("--update-golden"):
        FILM.write_text(said)

    assert FILM.read_text() == said, "run `make golden`, then read the diff"
