"""The serving labels of a step: nobody leaves the Service before those are in it that come back."""

from typing import Any

import pytest

from class_worlds import two_classes, write
from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.effects import Apply
from modelfleet.core.reconcile import plan
from modelfleet.core.stage import Stage


def switched(stage: Stage) -> list[str]:
    """The serving labels that are written to pods now, in their order."""
    written = (effect.manifest for effect in plan(stage.world()).effects if isinstance(effect, Apply))
    return [raw.text(each, "metadata", "labels", names.SERVING_LABEL) for each in written if each["kind"] == "Pod"]


@pytest.mark.parametrize(("before", "after"), [("image:1", "image:2"), ("image:2", "image:1")])
def test_one_that_comes_back_is_switched_on_before_another_is_switched_off(before: str, after: str):
    engine: dict[str, Any] = {"engine": {"image": before}}
    stage = two_classes(1, {"small": 2}, **engine)
    written = False
    for _ in range(40):
        outcome = stage.reconcile()
        if written and stage.off_since:
            break
        if not outcome.effects:
            if outcome.status["readyReplicas"] and not written:
                write(stage, engine={"image": after})
                written = True
            else:
                stage.happen(outcome.wake_after_s)
    write(stage, engine={"image": before})
    assert switched(stage) == ["true", "false"]
