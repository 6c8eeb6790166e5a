"""Rows of reasons.py: those of ObjectivesMet. Pure data."""

from modelfleet.api import standings as at

_NOTHING = "Nothing."

SHARE_KEPT = (
    "ShareKept",
    (at.PROMISE_KEPT,),
    "Of each objective that had requests the wanted share kept the promise, and the 95 % interval of the share says so"
    " too.",
    _NOTHING,
)
SHARE_MISSED = (
    "ShareMissed",
    (at.PROMISE_NOT_KEPT,),
    "Fewer requests than promised were inside ttft and tpot, in load and lengths that the promise is for. The whole"
    " 95 % interval of the share is below the target. The message names the objective that is furthest from it.",
    "Look at status.goodput and, per worker, at modelfleet_goodput_requests_total: late_ttft asks for more replicas"
    " (maxReplicas, accelerators), late_tpot for fewer sequences or another layout, failed and refused for the log.",
)
TOO_FEW_REQUESTS = (
    "TooFewRequests",
    (at.PROMISE_UNKNOWN,),
    "Requests were answered, and so few that their share says neither: its 95 % interval holds the target. Also for the"
    " first minute that an operator watches.",
    "Wait. A promise of 99 % needs some 400 requests in five minutes to be known to be kept.",
)
NO_TRAFFIC = "NoTraffic", (at.PROMISE_UNKNOWN,), "No request came in the last five minutes.", _NOTHING
NO_DATA = (
    "NoData",
    (at.PROMISE_UNKNOWN,),
    "No worker tells anything about its requests; the message says why. That is not the same as no requests.",
    "Look at the workers, at what is between them and the operator on port 8001 (NetworkPolicies), or at the Prometheus"
    " that the operator is told to read.",
)
OUTSIDE_REGIME = (
    "OutsideRegime",
    (at.PROMISE_KEPT, at.PROMISE_UNKNOWN),
    "The load or the lengths of the last five minutes pass those that the promise is for by more than a quarter, for"
    " certain. The message has the share in them and the last one inside the regime.",
    "If this is the load to be served, declare it in spec.objectives: load and lengths.",
)
NOT_MEASURED = (
    "NotMeasured",
    (at.PROMISE_UNKNOWN,),
    "Nothing measures the workers of this object: its spec is not accepted and planned, or this is a preview.",
    "Look at the first condition that is not True.",
)
