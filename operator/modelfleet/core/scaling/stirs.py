"""Whether samples may call for another decision or report, cheaply: asked of each model every 15 s. Pure."""

from modelfleet.core.scaling.reading import STARTING
from modelfleet.core.scaling.samples import WINDOW_S, PodSamples, Samples

_NO_TRAFFIC = (0, 0)


def busy(samples: Samples) -> bool:
    """Something arrived, ended or is being answered in the window, or a worker starts: figures move."""
    return any(_moves(pod, samples.at_s) for pod in (*samples.pods.values(), *samples.gone))


def mark(samples: Samples) -> tuple[str, ...]:
    """What matters even without traffic: which pods say something about now. Another mark is a reason to look."""
    return tuple(sorted(pod.uid for pod in samples.fresh()))


def _moves(pod: PodSamples, now_s: float) -> bool:
    last = pod.last
    if last is None:
        return False
    if last.state == STARTING or last.waiting or last.in_flight:
        return pod.fresh(now_s)
    ends = pod.ends(now_s, WINDOW_S)
    if ends is None:
        return False
    first, last = ends
    for promise, objectives in last.promises.items():
        for name, counts in objectives.items():
            before = first.of(promise, name)
            was = (before.arrivals, before.ended.counted) if before is not None else _NO_TRAFFIC
            if (counts.arrivals, counts.ended.counted) != was:
                return True
    return False
