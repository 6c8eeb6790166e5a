"""Which pods are read: leaders of replicas that have an address and have not ended. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from modelfleet.core import raw
from modelfleet.core.pods import view
from modelfleet.core.snapshot import Raw


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A pod to read. `host` is its address as a URL has it; one that is not `ready` may have no page yet."""

    uid: str
    name: str
    revision: str
    host: str
    ready: bool = True


def workers(pods: Iterable[Raw], deployment: str, uid: str) -> tuple[Worker, ...]:
    """The pods that the ModelDeployment `deployment` of this `uid` owns and that have a page: starting, serving or
    draining. Other ranks of a replica have none."""
    found = []
    for pod in pods:
        if not any(raw.text(owner, "uid") == uid for owner in raw.items(pod, "metadata", "ownerReferences")):
            continue
        seen, address = view(pod, deployment), raw.text(pod, "status", "podIP")
        if seen.revision is None or seen.rank or seen.finished or not address:
            continue
        host = f"[{address}]" if ":" in address else address
        found.append(Worker(uid=seen.uid, name=seen.name, revision=seen.revision, host=host, ready=seen.ready))
    return tuple(found)
