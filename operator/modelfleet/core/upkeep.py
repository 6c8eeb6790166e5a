"""What keeps existing children as they were made: labels, an edited image, Services. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.children import Children
from modelfleet.core.drift import delete, image_edited, labels_kept, put_back
from modelfleet.core.effects import Apply, Create, Effect, Manifest
from modelfleet.core.groups import Replica
from modelfleet.core.plan import Plan
from modelfleet.core.pods import PodView
from modelfleet.core.render.group_service import group_service
from modelfleet.core.render.metadata import metadata
from modelfleet.core.render.pod import pod_labels
from modelfleet.core.render.service import service
from modelfleet.core.rollout import Step


def keep_services(children: Children, grouped: Iterable[str]) -> Iterator[Effect]:
    """The Service that routes requests, and those of the `grouped` revisions; what no revision needs any more goes."""
    # Beside the pods, which need none to start: an address takes a while to be found.
    wanted = [service(children.owner), *(group_service(children.owner, revision) for revision in grouped)]
    for manifest in wanted:
        yield from _keep_service(children, manifest)
    kept = {raw.name(manifest) for manifest in wanted}
    for name, item in sorted(children.services.items()):
        if name not in kept and raw.at(item, "metadata", "deletionTimestamp") is None:
            yield delete(item, {"apiVersion": "v1", "kind": "Service"})


def _keep_service(children: Children, manifest: Manifest) -> Iterator[Effect]:
    name = raw.name(manifest)
    if name in children.services:
        yield from put_back(children.services[name], manifest)
    elif ("Service", name) not in children.foreign:
        yield Create(manifest)


def keep_pods(children: Children, fleet: Iterable[Replica], step: Step, plans: Mapping[str, Plan]) -> Iterator[Effect]:
    """Puts labels (and an edited image) back, and switches the serving label of replicas that leave or come back: of
    those that leave last, so that the Service is not empty between two writes."""
    off, on, deleted = ({one.uid for one in group} for group in (step.off, step.on, step.delete))
    for replica in sorted(fleet, key=lambda replica: replica.uid in off):
        for one in replica.pods:
            if one.terminating or one.finished or replica.uid in deleted:
                continue
            serving = replica.uid not in off and (replica.serving or replica.uid in on)
            yield from _keep_pod(children, one, serving, plans)


def _keep_pod(children: Children, one: PodView, serving: bool, plans: Mapping[str, Plan]) -> Iterator[Effect]:
    observed = children.pods[one.name]
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(children.owner, one.name, _labels(one, serving)),
    }
    image = plans[one.revision].image if one.revision is not None and one.revision in plans else ""
    if image and image_edited(observed, image):
        manifest["spec"] = {"containers": [{"name": names.WORKER_CONTAINER, "image": image}]}
    if "spec" in manifest or not labels_kept(observed, manifest):
        yield Apply(manifest, one.uid)


def _labels(one: PodView, serving: bool) -> dict[str, str]:
    """A pod's labels; of one whose name we would not have given only the label that drains it."""
    if one.revision is None or one.slot is None:
        return {names.SERVING_LABEL: "true" if serving else "false"}
    return pod_labels(one.revision, one.slot, one.rank, serving)
