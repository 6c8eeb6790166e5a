"""What `modelfleet explain` says of a plan with layouts on several classes."""

from typing import Any

from modelfleet.cli.explain import lines


def pool(name: str, replicas: int, knee: str) -> dict[str, Any]:
    """A pool of the status."""
    predicted = {"kneeRequestsPerSecond": knee, "kneeBound": "ttft", "source": "predicted"}
    return {
        "role": "Serve",
        "class": name,
        "layout": "tp2",
        "acceleratorsPerReplica": 2,
        "replicas": replicas,
        "predicted": predicted,
    }


def told(*pools: dict[str, Any]) -> str:
    """The whole explanation on one line."""
    status = {"observedGeneration": 1, "plan": {"revision": "1a2b3c4d", "pools": list(pools)}}
    return " ".join(" ".join(lines({"metadata": {"name": "chat", "generation": 1}, "status": status})).split())


def test_each_class_has_its_line_and_later_ones_say_when_they_are_used():
    said = told(pool("h100", 2, "3.5"), pool("l40s", 1, "1"), pool("l4", 0, "0.5"))
    assert "Serve: 2 × tp2 on h100, 2 accelerators a replica predicted" in said
    assert "1 × tp2 on l40s, 2 accelerators a replica; the classes before had no room for these" in said
    assert "0 × tp2 on l4, 2 accelerators a replica; where the classes before have no room" in said


def test_the_load_that_more_replicas_are_needed_for_is_that_of_all_classes():
    said = told(pool("h100", 2, "3.5"), pool("l40s", 1, "1"))
    assert "above 8 requests a second the promise needs more replicas on h100, else on l40s" in said


def test_a_plan_of_one_class_is_told_as_ever():
    said = told(pool("h100", 2, "3.5"))
    assert "above 7 requests a second the promise needs more replicas on h100, up to spec.scaling" in said
    assert "no room" not in said
