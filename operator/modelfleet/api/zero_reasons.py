"""Rows of reasons.py about scaling to zero: value, where it may stand, meaning, remedy. Pure data."""

from typing import Final

from modelfleet.api import standings as at

CAPACITY_MAY_NOT_RETURN: Final = (
    "CapacityMayNotReturn",
    (at.NOT_ACCEPTED,),
    "spec.scaling.toZero gives accelerators back, and the class says of every supply that what is given back may not be"
    " had again (canBeReacquired: false).",
    "Leave toZero out and write minReplicas of at least 1, name another class, or correct the class's supplies.",
)
AT_ZERO: Final = (
    "AtZero",
    (at.AVAILABLE, at.NOT_PROGRESSING, at.READY),
    "No replica runs. A request is held by the activator and wakes as many replicas as are needed.",
    "None is needed. To keep a replica leave spec.scaling.toZero out and write minReplicas of at least 1.",
)
WAKING: Final = (
    "Waking",
    (at.AVAILABLE, at.READY),
    "Replicas start because requests came while none ran. The activator holds the requests meanwhile.",
    "Nothing to do; status.coldStart says how far the start is.",
)
GOING_TO_ZERO: Final = (
    "GoingToZero",
    (at.PROGRESSING,),
    "No request came for spec.scaling.toZero.after, so the activator takes over and the last replicas end.",
    "Nothing to do. A request that comes meanwhile calls it off.",
)
ACTIVATOR_SILENT: Final = (
    "ActivatorSilent",
    (at.NOT_AVAILABLE, at.NOT_PROGRESSING),
    "No activator answers for this model through its Service. Replicas that serve stay; at zero a request would not be"
    " answered.",
    "Install the chart with activator.enabled=true. Where it is, look at the activator's pods (`kubectl get pods -A -l"
    " app.kubernetes.io/name=modelfleet-activator`) and at their log.",
)
WAKE_FAILED: Final = (
    "WakeFailed",
    (at.NOT_AVAILABLE,),
    "Replicas that were to answer waiting requests did not come to serve; the message says why. The next request is"
    " answered with that reason at once until the back-off ends, then a request starts another try.",
    "Mend what the message names. A changed spec is tried with the next request.",
)
ZERO_BY_HAND: Final = (
    "ZeroByHand",
    (at.NOT_AVAILABLE,),
    "spec.scaling.mode is Manual and replicas is 0, so requests wake nothing; they are answered with 503.",
    "Set spec.scaling.replicas to at least 1, or mode to Active.",
)
