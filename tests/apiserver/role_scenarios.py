"""What an operator has to do in its life, for the proof that its roles are exactly what it uses.

To add to it: write a function here that makes the operator do the new thing and waits until it has, and name it in
SCENARIOS. They run on one cluster, each with a ModelDeployment of its own: row by row, three of a row at once.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from fleet import Fleet
from operator_process import Operator

from modelfleet.api import names
from modelfleet.api.parse import parse_deployment
from modelfleet_local.api import ApiError
from modelfleet_worker.engine_counts import Cell
from planner_worlds import FACTS_8B, PERFORMANCE
from sampled import promise_of
from worker_pages import WorkerPage

AT_ONCE = 3  # more would make each other late on two processors
CHILDREN = ("pods", "services", "configmaps", "controllerrevisions")


@dataclass
class Story:
    """A namespace with a class of GPU nodes, and the operator that serves it."""

    fleet: Fleet
    operator: Operator

    def apply(self, name: str, replicas: int = 1, parallelism: object = None, **model: object) -> None:
        """The ModelDeployment `name` in mode Manual."""
        scaling = {"mode": "Manual", "minReplicas": 1, "maxReplicas": 4, "replicas": replicas}
        source = {"source": "pvc://models/chat", **model}
        pins = {} if parallelism is None else {"parallelism": parallelism}
        self.fleet.apply(self.fleet.deployment(name, model=source, scaling=scaling, **pins))

    def settled(self, name: str, replicas: int = 1) -> None:
        """Until it has this many pods and nothing moves."""
        self.fleet.wait(f"{replicas} pods", lambda: len(self.fleet.children("pods", name)) == replicas)
        self.fleet.settled(name)

    def child(self, plural: str, name: str) -> str:
        """The name of the first child of this kind; of the ConfigMaps it is the plan."""
        child, *_ = self.fleet.children(plural, name)
        return str(child["metadata"]["name"])


def create_change_scale_and_delete(story: Story) -> None:
    """From the first pod over a rollout, its drain and the removal of the old revision's ConfigMap, to nothing."""
    story.apply("life", replicas=2)
    story.settled("life", 2)
    story.apply("life", replicas=1)
    story.settled("life", 1)
    story.apply("life", replicas=1, maxContextTokens=512)
    story.fleet.wait("the second revision", lambda: len(story.fleet.children("controllerrevisions", "life")) == 2)
    story.settled("life", 1)
    story.fleet.kubectl("delete", "mdep", "life")
    story.fleet.wait("nothing left", lambda: not any(story.fleet.children(plural, "life") for plural in CHILDREN))


def a_number_that_samples_decide(story: Story) -> None:
    """In mode Active the quotas of the namespace are read before replicas are asked for."""
    story.fleet.apply(story.fleet.deployment("active", model={"source": "pvc://models/chat"}))
    story.settled("active")
    story.fleet.kubectl("delete", "mdep", "active")


def a_revision_and_a_plan_that_nothing_needs(story: Story) -> None:
    """Ours by their owner, of a revision beyond the history: they go."""
    story.apply("history")
    story.settled("history")
    stored = story.fleet.get(names.DEPLOYMENT_PLURAL, "history") or {}
    owner = {key: stored[key] for key in ("apiVersion", "kind")} | {"name": "history", "controller": True}
    for plural in ("configmaps", "controllerrevisions"):
        metadata = {
            "name": "history-old",
            "labels": {names.DEPLOYMENT_LABEL: "history"},
            "ownerReferences": [owner | {"uid": stored["metadata"]["uid"]}],
        }
        story.fleet.api.create(story.fleet.path(plural), {"metadata": metadata, **_FOREIGN[plural]})
        story.fleet.wait(f"no old {plural}", lambda plural=plural: story.fleet.get(plural, "history-old") is None)


def labels_that_somebody_took_away(story: Story) -> None:
    """Each child loses a label of ours and gets it back."""
    story.apply("labels")
    story.settled("labels")
    for plural in CHILDREN:
        child = story.child(plural, "labels")
        edit = {"metadata": {"labels": {names.MANAGED_BY_LABEL: None}}}
        story.fleet.api.patch(story.fleet.path(plural, child), edit)
        story.fleet.wait(
            f"the label of the {plural}",
            lambda plural=plural, child=child: (
                (story.fleet.get(plural, child) or {})["metadata"]["labels"].get(names.MANAGED_BY_LABEL)
                == names.MANAGED_BY
            ),
        )


def a_pod_that_somebody_relabelled(story: Story) -> None:
    """It is no longer listed, so it is read by its name."""
    story.apply("relabelled")
    story.settled("relabelled")
    pod = story.child("pods", "relabelled")
    edit = {"metadata": {"labels": {names.DEPLOYMENT_LABEL: "other"}}}
    story.fleet.api.patch(story.fleet.path("pods", pod), edit)
    story.fleet.wait("the pod is back", lambda: len(story.fleet.children("pods", "relabelled")) == 1)


def a_service_with_a_port_too_many(story: Story) -> None:
    """Server-side apply cannot take the port away, so the Service is made anew."""
    story.apply("ports")
    story.settled("ports")
    uid = story.fleet.children("services", "ports")[0]["metadata"]["uid"]
    ports = [{"name": "http", "port": 80, "targetPort": 8000}, {"name": "more", "port": 81, "targetPort": 8000}]
    story.fleet.api.patch(story.fleet.path("services", "ports"), {"spec": {"ports": ports}})
    story.fleet.wait(
        "a new Service",
        lambda: [each["metadata"]["uid"] != uid for each in story.fleet.children("services", "ports")] == [True],
    )


def names_that_others_hold(story: Story) -> None:
    """Each child's name is held by an object of somebody else, which is read by its name until it is gone."""
    story.apply("taken")
    story.settled("taken")
    held = {plural: story.child(plural, "taken") for plural in CHILDREN if plural != "pods"}
    story.fleet.kubectl("delete", "mdep", "taken")
    story.fleet.wait("nothing left", lambda: not any(story.fleet.children(plural, "taken") for plural in CHILDREN))
    for plural, name in held.items():
        foreign = {"metadata": {"name": name}, **_FOREIGN[plural]}
        story.fleet.api.create(story.fleet.path(plural), foreign)
        story.apply("taken")
        story.fleet.wait_condition("Accepted", "False", "NameTaken", "taken")
        story.fleet.kubectl("delete", plural, name)
        story.settled("taken")
        story.fleet.kubectl("delete", "mdep", "taken")
        story.fleet.wait("nothing left", lambda: not any(story.fleet.children(each, "taken") for each in CHILDREN))


_FOREIGN = {
    "services": {"spec": {"ports": [{"port": 80}]}},
    "configmaps": {"data": {}},
    "controllerrevisions": {"revision": 1, "data": {"of": "somebody"}},
    "jobs": {
        "spec": {
            "suspend": True,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "own", "image": "registry.example/own:1"}]}
            },
        }
    },
}


def a_restart_that_tells_the_same_again(story: Story) -> None:
    """An event that an earlier process wrote is counted on, and the Lease that it released is taken."""
    story.apply("again")
    story.settled("again")
    for _ in range(2):
        story.apply("again", replicas=2)
        story.settled("again", 2)
        story.apply("again", replicas=1)
        story.settled("again", 1)
        assert story.operator.stop() == 0
        story.operator.start()


def a_model_that_a_job_reads(story: Story) -> None:
    """On a class whose performance is stated: the Job's name is held at first, then it is read, then another model."""
    story.fleet.create_class(**PERFORMANCE)
    story.apply("read")
    story.fleet.wait("a Job", lambda: bool(story.fleet.children("jobs", "read")))
    held = story.child("jobs", "read")
    story.fleet.kubectl("delete", "mdep", "read")
    story.fleet.wait(
        "nothing left", lambda: not any(story.fleet.children(each, "read") for each in (*CHILDREN, "jobs"))
    )
    story.fleet.api.create(story.fleet.path("jobs"), {"metadata": {"name": held}, **_FOREIGN["jobs"]})
    story.apply("read")
    story.fleet.wait_condition("Planned", "False", "NameTaken", "read")
    story.fleet.kubectl("delete", "job", held)
    story.fleet.wait("a Job of ours", lambda: bool(story.fleet.children("jobs", "read")))
    story.apply("read", source="pvc://models/other")
    story.fleet.wait("the other Job", lambda: _names(story.fleet.children("jobs", "read")) not in ([], [held]))


def _names(children: list[dict[str, Any]]) -> list[str]:
    return [child["metadata"]["name"] for child in children]


def a_budget_that_is_edited_and_held(story: Story) -> None:
    """What Kubernetes may evict is put back, made anew where another bound excludes ours, and read while it is held."""
    budgets = story.fleet.path("poddisruptionbudgets", "budget")

    def least() -> object:
        return (story.fleet.get("poddisruptionbudgets", "budget") or {}).get("spec", {}).get("minAvailable")

    story.apply("budget")
    story.settled("budget")
    story.fleet.api.patch(budgets, {"spec": {"minAvailable": 0}})
    story.fleet.wait("the bound is back", lambda: least() == 1)
    story.fleet.api.patch(budgets, {"spec": {"minAvailable": None, "maxUnavailable": 1}})
    story.fleet.wait("it is made anew", lambda: least() == 1)
    story.fleet.kubectl("delete", "mdep", "budget")
    foreign = {"metadata": {"name": "budget"}, "spec": {"minAvailable": 0, "selector": {"matchLabels": {"own": "yes"}}}}

    def taken() -> bool:
        """Kubernetes deletes ours, and once more what a reconcile made that had begun before."""
        try:
            story.fleet.api.create(story.fleet.path("poddisruptionbudgets"), foreign)
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    story.fleet.wait("its name is free for another", taken)
    story.apply("budget")
    story.settled("budget")


def a_group_whose_policy_is_edited_held_and_let_go(story: Story) -> None:
    """Two nodes of 8 for each replica: its NetworkPolicy is put back, read by its name while it is somebody else's, and
    deleted when one node is enough."""
    two_nodes = {"tensor": 8, "pipeline": 2}
    story.apply("fenced", parallelism=two_nodes)
    story.settled("fenced", 2)
    policy = story.child("networkpolicies", "fenced")
    path = story.fleet.path("networkpolicies", policy)
    story.fleet.api.patch(path, {"metadata": {"labels": {names.MANAGED_BY_LABEL: None}}})
    story.fleet.wait(
        "the policy's label",
        lambda: (
            (story.fleet.get("networkpolicies", policy) or {})["metadata"]["labels"].get(names.MANAGED_BY_LABEL)
            == names.MANAGED_BY
        ),
    )
    # Without our label it is not listed: the operator learns at its next POST that the name is held.
    story.fleet.api.patch(path, {"metadata": {"ownerReferences": None, "labels": {names.DEPLOYMENT_LABEL: None}}})
    story.fleet.wait_condition("Accepted", "False", "NameTaken", "fenced")
    story.fleet.kubectl("delete", "networkpolicy", policy)
    story.settled("fenced", 2)
    story.apply("fenced", parallelism={"tensor": 8})
    story.fleet.wait("one pod", lambda: len(story.fleet.children("pods", "fenced")) == 1)
    story.fleet.wait("no policy", lambda: story.fleet.children("networkpolicies", "fenced") == [])
    story.fleet.kubectl("delete", "mdep", "fenced")
    story.fleet.wait("nothing left", lambda: not any(story.fleet.children(each, "fenced") for each in CHILDREN))


def a_model_that_is_about_to_go_to_zero(story: Story) -> None:
    """The slice to the activators is made, put back and dropped; the entry of a dead activator would be taken out."""
    terms = {"minReplicas": 0, "maxReplicas": 2, "mode": "Manual", "toZero": {"firstCallerWaits": "5m"}}

    def wanted(replicas: int) -> None:
        manifest = story.fleet.deployment("zero", scaling={**terms, "replicas": replicas})
        manifest["spec"]["objectives"][0] |= {"firstCaller": "Excused"}
        story.fleet.apply(manifest)

    def slice_() -> dict[str, Any] | None:
        return story.fleet.get("endpointslices", "zero-activator")

    wanted(1)
    story.settled("zero")
    wanted(0)
    story.fleet.wait("the slice", lambda: slice_() is not None)
    edit = {"metadata": {"labels": {names.SLICE_MANAGER_LABEL: "nobody"}}}
    story.fleet.api.patch(story.fleet.path("endpointslices", "zero-activator"), edit)
    story.fleet.wait(
        "the label is back",
        lambda: (slice_() or {})["metadata"]["labels"].get(names.SLICE_MANAGER_LABEL) == names.ACTIVATOR,
    )
    wanted(1)
    story.fleet.wait("no slice", lambda: slice_() is None)
    story.fleet.kubectl("delete", "mdep", "zero")


def a_replica_that_is_measured(story: Story) -> None:
    """Its worker's page tells of steps: a ModelProfile of them is made, and put right again when somebody edits it."""
    name, address = "measured", "127.0.0.9"

    def written() -> dict[str, Any]:
        (found,) = story.fleet.children(names.PROFILE_PLURAL, name) or [{}]
        return dict(found.get("spec", {}).get("stepTime", {}))

    manifest = story.fleet.deployment(name, model={"source": "pvc://models/chat", "facts": FACTS_8B})
    story.fleet.apply(manifest)
    story.settled(name)
    pod = story.fleet.children("pods", name)[0]["metadata"]
    promise = promise_of(parse_deployment(story.fleet.get(names.DEPLOYMENT_PLURAL, name) or {}))  # type: ignore[arg-type]
    page = WorkerPage(promise=promise, numbers={}, name=pod["name"], uid=pod["uid"])
    with told_at(address, names.STATUS_PORT) as told:
        told.text = replace(page, cells={(4, 0): Cell(5000, 100.0, 40_000, 0)}).text
        moved = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        story.fleet.api.patch(story.fleet.path("pods", f"{pod['name']}/status"), moved)
        story.fleet.wait("a profile", lambda: bool(written()))
        before, profile = written(), story.child(names.PROFILE_PLURAL, name)
        edit = {"spec": {"stepTime": {"decode": "9"}}}
        story.fleet.api.patch(story.fleet.path(names.PROFILE_PLURAL, profile), edit)
        story.fleet.wait("it is as it was", lambda: written() == before)
    story.fleet.kubectl("delete", "mdep", name)


@dataclass
class Told:
    """What a page says at any time."""

    text: str = ""


@contextmanager
def told_at(address: str, port: int) -> Iterator[Told]:
    """A page at an address of this machine, for the time of the block."""
    told = Told()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = told.text.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((address, port), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


SCENARIOS: tuple[tuple[Callable[[Story], None], ...], ...] = (
    (a_group_whose_policy_is_edited_held_and_let_go,),  # while all nodes are free
    (
        create_change_scale_and_delete,
        a_number_that_samples_decide,
        labels_that_somebody_took_away,
        a_pod_that_somebody_relabelled,
        a_service_with_a_port_too_many,
        names_that_others_hold,
        a_revision_and_a_plan_that_nothing_needs,
        a_budget_that_is_edited_and_held,
        a_model_that_is_about_to_go_to_zero,
    ),
    (a_restart_that_tells_the_same_again,),  # the others need an operator all the time
    (a_model_that_a_job_reads,),  # from then on the class asks for facts
    (a_replica_that_is_measured,),
)


def play(story: Story) -> None:
    """All scenarios; raises what the first that fails raises. Those of a row mostly wait, so some wait together."""
    for row in SCENARIOS:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(scenario, story) for scenario in row]:
                done.result()
