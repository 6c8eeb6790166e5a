"""A ModelDeployment on a real kubelet with the real vLLM: it answers, keeps its promise to be Ready, and heals.

The tests share one served model, because an engine's start takes a minute; each leaves it Ready.
"""

import json
import signal

import pytest

from modelfleet_local import fleet

OPERATOR = "modelfleet"  # the Deployment and its service account


@pytest.fixture(scope="module")
def chat(site):
    """The ModelDeployment `chat`, applied and settled: its model is read by a Job, its layout chosen by the planner."""
    site.apply(manifest(site))
    site.wait_for("chat", "Ready", "True")
    site.wait_for("chat", "Progressing", "False", "Settled")
    return site


def manifest(site):
    """A ModelDeployment without `parallelism` on a class that states its performance."""
    return site.deployment("chat", accelerators={"classes": [site.known_class()]})


def test_the_model_was_read_where_its_weights_are_and_the_plan_says_why(chat):
    status = chat.read("mdep", "chat")["status"]
    (pool,) = status["plan"]["pools"]
    assert status["model"]["facts"] == "Inspected"
    assert status["model"]["checkpoint"]
    assert (pool["layout"], pool["predicted"]["source"]) == ("tp1", "predicted")
    assert pool["engine"]["sequenceCap"] == 8, "the user's flag is a pin"
    assert "fits one accelerator" in chat.condition("chat", "Planned")["message"]
    assert "PlanPinned" in chat.kubectl("get", "events", "--field-selector=reason=PlanPinned")
    assert chat.read("jobs")["items"] == [], "it was deleted when it was read"
    report = json.loads(chat.read("configmap", "chat-state")["data"]["model.json"])["report"]
    assert report["dtypes"]


def test_a_chat_completion_is_answered_through_the_service(chat):
    assert chat.ask("chat", max_tokens=16).strip()


def test_the_service_s_name_resolves_and_answers_inside_a_pod(chat):
    (pod,) = chat.pods("chat")
    url = f"http://chat.{chat.namespace}.svc/v1/models"
    script = f"import urllib.request as u; print(u.urlopen({url!r}, timeout=10).read().decode())"
    models = json.loads(chat.run_in_pod(pod["metadata"]["name"], script))
    assert [model["id"] for model in models["data"]] == ["chat"]


def test_only_the_listed_paths_reach_the_engine(chat):
    (pod,) = chat.pods("chat")
    script = (
        "import urllib.request as u, urllib.error as e\n"
        "def status(path):\n"
        "    try: return u.urlopen('http://127.0.0.1:8000' + path, timeout=10).status\n"
        "    except e.HTTPError as error: return error.code\n"
        "print([status(p) for p in ('/v1/models', '/docs', '/openapi.json', '/sleep', '/server_info')])"
    )
    assert json.loads(chat.run_in_pod(pod["metadata"]["name"], script)) == [200, 404, 404, 404, 404]


def test_the_pod_is_not_root_cannot_write_its_image_and_holds_no_token(chat):
    (pod,) = chat.pods("chat")
    script = (
        "import os, json\n"
        "def writable(path):\n"
        "    try: open(path + '/x', 'w').close(); return True\n"
        "    except OSError: return False\n"
        "token = os.path.exists('/var/run/secrets/kubernetes.io/serviceaccount/token')\n"
        "links = [name for name in os.environ if name.endswith('_SERVICE_HOST') and 'KUBERNETES' not in name]\n"
        "print(json.dumps([os.getuid(), writable('/etc'), writable('/models/models'), token, links]))"
    )
    assert json.loads(chat.run_in_pod(pod["metadata"]["name"], script)) == [65532, False, False, False, []]


def test_kubectl_diff_of_the_applied_manifest_is_empty(chat):
    applied = json.dumps(manifest(chat))
    # kubectl reads twice; between the reads the operator may have written status.
    chat.wait("no difference", lambda: not chat.cluster.kubectl("diff", "-f", "-", stdin=applied).returncode, 60)


def _but_measured(chat):
    """Its status without what the requests of the last minutes change."""
    status = json.loads(chat.kubectl("get", "mdep", "chat", "-o", "json"))["status"]
    status.pop("goodput", None)
    for pool in status["plan"]["pools"]:
        pool.pop("observed", None)
    return status | {"conditions": [each for each in status["conditions"] if each["type"] != "ObjectivesMet"]}


@pytest.mark.own_cluster("reads the API server's audit log")
def test_a_reconcile_of_an_unchanged_world_writes_nothing_but_what_is_measured(chat):
    audit, before = chat.cluster.audit_log, _but_measured(chat)
    account = f"system:serviceaccount:{fleet.SYSTEM_NAMESPACE}:{OPERATOR}"
    seen = audit.stat().st_size
    chat.kubectl("annotate", "mdep", "chat", "test/touched=once", "--overwrite")

    def requests():
        lines = audit.read_bytes()[seen:].splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [event for event in events if event["user"].get("username", "") == account]

    chat.wait("a reconcile", lambda: sum(event["verb"] == "list" for event in requests()) >= 4, timeout_s=30)
    writes = [event for event in requests() if event["verb"] not in {"get", "list", "watch"}]
    what = {(event["objectRef"]["resource"], event["objectRef"].get("subresource", "")) for event in writes}
    assert what <= {("leases", ""), ("modeldeployments", "status")}
    assert _but_measured(chat) == before
    chat.kubectl("annotate", "mdep", "chat", "test/touched-")


def test_an_engine_that_dies_is_a_condition_with_its_reason_and_comes_back_by_itself(chat):
    (before,) = chat.pods("chat")
    chat.signal(before["metadata"]["name"], "EngineCore", signal.SIGKILL)
    message = chat.wait_for("chat", "Ready", "False", "EngineDied", timeout_s=60)
    assert before["metadata"]["name"] in message
    assert "Warning" in chat.kubectl("get", "events", "--field-selector=reason=EngineDied")
    chat.wait_for("chat", "Ready", "True")
    (after,) = chat.pods("chat")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert chat.ask("chat", max_tokens=4)
