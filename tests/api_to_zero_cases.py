"""spec.scaling.toZero and what goes with it: what may be written, and what is said about the rest."""

from typing import Any

from api_objects import CLASS, OBJECTIVE, Bad, Good

_ZERO = {"spec.scaling.minReplicas": 0, "spec.scaling.toZero": {"after": "15m", "firstCallerWaits": "5m"}}
_EXCUSED = {f"{OBJECTIVE}.firstCaller": "Excused"}
_COUNTS = (
    "an objective whose first caller counts has a ttft below toZero.firstCallerWaits, so the request that wakes the"
    " model would break the promise: write firstCaller Excused there, a longer ttft, or leave toZero out"
)
_FORM = "a duration is whole numbers with units h, m, s or ms, such as 500ms, 30s or 1m30s"


def _waits(waits: Any) -> dict[str, Any]:
    return {**_ZERO, **_EXCUSED, "spec.scaling.toZero": {"firstCallerWaits": waits}}


TO_ZERO_GOOD = (
    Good("to zero with an excused first caller", {**_ZERO, **_EXCUSED}),
    Good("to zero with a first caller that counts and can wait", {**_ZERO, f"{OBJECTIVE}.ttft": "5m"}),
    Good("to zero after the default time", _waits("90s")),
    Good("to zero by hand", {**_ZERO, **_EXCUSED, "spec.scaling.mode": "Manual", "spec.scaling.replicas": 0}),
    Good("an excused first caller where nothing goes to zero", _EXCUSED),
    Good(
        "a supply that may not come back",
        {"spec.supplies": [{"name": "lucky", "canBeReacquired": False}]},
        CLASS,
    ),
)

TO_ZERO_BAD = (
    Bad(
        "no replica without terms",
        {"spec.scaling.minReplicas": 0},
        "spec.scaling.minReplicas",
        "minReplicas 0 needs toZero, which says when no replica runs and how long the first caller waits: write toZero,"
        " or minReplicas of at least 1",
    ),
    Bad(
        "to zero with a replica that always runs",
        {**_ZERO, **_EXCUSED, "spec.scaling.minReplicas": 1},
        "spec.scaling.toZero",
        "toZero needs minReplicas 0: write 0, or leave toZero out",
    ),
    Bad(
        "never a replica",
        {**_ZERO, **_EXCUSED, "spec.scaling.maxReplicas": 0},
        "spec.scaling.maxReplicas",
        "maxReplicas must be at least 1: a model that may have no replica serves nobody",
    ),
    Bad("to zero with a first caller that counts and cannot wait", _ZERO, "spec.scaling.toZero", _COUNTS),
    Bad(
        "to zero with a first caller that says so and cannot wait",
        {**_ZERO, f"{OBJECTIVE}.firstCaller": "Counts", f"{OBJECTIVE}.ttft": "299s"},
        "spec.scaling.toZero",
        _COUNTS,
    ),
    Bad(
        "a first caller that is neither",
        {f"{OBJECTIVE}.firstCaller": "Ignored"},
        "spec.objectives[0].firstCaller",
        "must be one of 'Counts' or 'Excused'",
        server='supported values: "Counts", "Excused"',
    ),
    Bad("a wait without a unit", _waits("5"), "spec.scaling.toZero.firstCallerWaits", _FORM),
    Bad(
        "a wait of nothing",
        _waits("0s"),
        "spec.scaling.toZero.firstCallerWaits",
        "the duration must be above zero",
    ),
    Bad(
        "a supply that perhaps comes back",
        {"spec.supplies": [{"name": "lucky", "canBeReacquired": "maybe"}]},
        "spec.supplies[0].canBeReacquired",
        'must be true or false, without quotes, not "maybe"',
        server="must be of type boolean",
        base=CLASS,
    ),
)
