"""Rows of reasons.py about rollouts: value, where it may stand, meaning, remedy. Pure data."""

from typing import Final

from modelfleet.api import standings as at

ROLLOUT_PAUSED: Final = (
    "RolloutPaused",
    (at.PROGRESS_UNKNOWN,),
    "spec.rollout.paused is set while replicas of another revision run or were lost, and none is replaced.",
    "To go on set spec.rollout.paused to false, or `modelfleet rollout resume NAME`.",
)
PROGRESS_DEADLINE_EXCEEDED: Final = (
    "ProgressDeadlineExceeded",
    (at.NOT_PROGRESSING,),
    "In a rollout no further new replica came to serve for spec.rollout.progressDeadline, or where that is not written"
    " for as long as a start may take. Old ones that are left go on serving.",
    "Mend what the message names, or set the spec back. A longer start needs a longer progressDeadline.",
)
PROMISE_BROKEN: Final = (
    "PromiseBroken",
    (at.NOT_PROGRESSING,),
    "Replicas of the new revision break the promise for certain, while those of the old one keep it.",
    "Set the spec back, or change what makes the new revision slower.",
)
ROLLED_BACK: Final = (
    "RolledBack",
    (at.NOT_PROGRESSING,),
    "The revision of this spec did not serve, so the one before it serves in its place; the message says why.",
    "Mend what the message names and change the spec, or set it back. To try the same spec again set"
    " spec.rollout.paused to true and then to false. spec.rollout.onFailure Hold gives no revision up.",
)
CORDONED_NODE: Final = (
    "CordonedNode",
    (at.PROGRESSING, at.NOT_PROGRESSING),
    "A replica stands on a node that is cordoned. It is replaced elsewhere before it ends; where there is no room"
    " for that, it stays.",
    "Wait, or free or add a node that fits. To let it end first set spec.rollout.maxUnavailable to 1.",
)
