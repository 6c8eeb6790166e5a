"""What each revision of a deployment keeps of the promise, for a rollout to be judged by. Pure.

All revisions are measured over the same minutes, so that they had the same load: a new one that breaks in it what an
old one keeps is to blame, whether the load is the declared one or not.
"""

from modelfleet.api.modeldeployment import ModelDeployment, Objective
from modelfleet.core.course import Interval, Promise
from modelfleet.core.promise import digest
from modelfleet.core.scaling.interval import wilson
from modelfleet.core.scaling.samples import Samples, counted


def promise_of_revisions(deployment: ModelDeployment, samples: Samples) -> Promise:
    """The objective that tells revisions apart for certain (one breaks it, another keeps it), else the first."""
    promises = [_promise(objective, deployment, samples) for objective in deployment.spec.objectives]
    return next((each for each in promises if _tells_apart(each)), promises[0])


def _promise(objective: Objective, deployment: ModelDeployment, samples: Samples) -> Promise:
    pods = (*samples.pods.values(), *samples.gone)
    measured = {}
    for revision in sorted({pod.revision for pod in pods}):
        own = [pod for pod in pods if pod.revision == revision]
        found = counted(samples, digest(deployment), str(objective.name), of=own)
        ended = found.counts.ended if found else None
        if ended is not None and ended.counted:
            share = wilson(ended.met, ended.counted)
            measured[revision] = Interval(share.low, share.high)
    return Promise(target=float(objective.share.fraction), measured=measured)


def _tells_apart(promise: Promise) -> bool:
    shares = promise.measured.values()
    return any(each.high < promise.target for each in shares) and any(each.low >= promise.target for each in shares)
