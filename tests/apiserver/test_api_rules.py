"""The table of good and bad objects, before a real API server; and that it takes our CRDs as they are."""

import json
from typing import Any

import pytest

from api_cases import BAD, GOOD
from api_class_cases import PERFORMANCE
from api_objects import CLASS, DEPLOYMENT, Bad, Good, changed
from cluster_fixtures import Kubectl
from modelfleet.api import crd
from modelfleet.api.engine_options import REFUSED_FLAGS

ONE_BY_ONE = tuple(case for case in BAD if not case.id.startswith("the flag "))
"""The refused flags are sent together, to save time."""


def said(kubectl: Kubectl, manifest: Any) -> tuple[int, str]:
    done = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(manifest))
    return done.returncode, done.stderr


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.id)
def test_a_good_object_is_taken(kubectl: Kubectl, case: Good) -> None:
    assert said(kubectl, case.manifest) == (0, "")


@pytest.mark.parametrize("case", ONE_BY_ONE, ids=lambda case: case.id)
def test_a_bad_object_is_refused_with_the_same_sentence(kubectl: Kubectl, case: Bad) -> None:
    status, error = said(kubectl, case.manifest)

    assert status == 1
    if case.server:
        assert case.server in error
    else:
        assert case.says in error
        assert case.path.rpartition(".nodeSelector")[0] + case.path.rpartition(".nodeSelector")[1] in error


def test_every_refused_flag_is_answered_with_what_to_write_instead(kubectl: Kubectl) -> None:
    manifest = changed(DEPLOYMENT, {"spec.engine.args": {flag: "1" for flag in REFUSED_FLAGS}})

    status, error = said(kubectl, manifest)

    assert status == 1
    assert [flag for flag, why in REFUSED_FLAGS.items() if f"the flag {flag} is refused: {why}" not in error] == []


@pytest.mark.parametrize("kind", crd.KINDS, ids=lambda kind: kind.plural)
def test_a_definition_is_small_and_structural_and_served(kubectl: Kubectl, kind: crd.Kind) -> None:
    manifest = json.dumps(crd.crd(kind))

    done = kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifest)
    stored = json.loads(kubectl("get", "crd", crd.crd(kind)["metadata"]["name"], "-o", "json").stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(manifest) < 200_000
    conditions = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_kubectl_explains_fields_with_their_documentation(kubectl: Kubectl) -> None:
    explained = " ".join(kubectl("explain", "mdep.spec.objectives.ttft").stdout.split())

    assert "Longest time from a request's arrival to its first token, such as 500ms." in explained


def test_scale_reads_and_writes_the_replicas_of_manual_mode(kubectl: Kubectl, namespace: str) -> None:
    manifest = changed(DEPLOYMENT, {"metadata.namespace": namespace, "spec.scaling.mode": "Manual"})
    kubectl("create", "-f", "-", stdin=json.dumps(manifest))

    before = kubectl("get", "mdep/chat", "-n", namespace, "-o", "jsonpath={.spec.scaling.replicas}").stdout
    scaled = kubectl("scale", "mdep/chat", "-n", namespace, "--replicas=3")
    after = kubectl("get", "mdep/chat", "-n", namespace, "-o", "jsonpath={.spec.scaling.replicas}").stdout

    assert (before, scaled.returncode, after) == ("1", 0, "3")


def test_an_applied_object_differs_in_nothing_from_its_file(kubectl: Kubectl, namespace: str) -> None:
    manifest = json.dumps(changed(DEPLOYMENT, {"metadata.namespace": namespace}))
    kubectl("apply", "-f", "-", stdin=manifest)

    assert kubectl("diff", "-f", "-", stdin=manifest).returncode == 0


def test_the_columns_tell_a_user_what_matters(kubectl: Kubectl, namespace: str) -> None:
    manifest = changed(DEPLOYMENT, {"metadata.namespace": namespace})
    kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Starting",
        "message": "0 of 1 replicas serve",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    pool = {"role": "Serve", "class": "h100-sxm", "layout": "tp2", "acceleratorsPerReplica": 2, "replicas": 1}
    status = {
        "conditions": [condition, {**condition, "type": "Progressing", "status": "True", "reason": "RollingOut"}],
        "observedGeneration": 1,
        "replicas": 1,
        "readyReplicas": 0,
        "placedReplicas": 1,
        "drainingReplicas": 0,
        "selector": "modelfleet.dev/deployment=chat",
        "plan": {"revision": "1a2b3c4d", "pools": [pool]},
        "scaling": {
            "lastDecision": {
                "from": 0,
                "to": 1,
                "reason": "OutOfBounds",
                "detail": "0 is outside 1..4",
                "bound": "minReplicas",
                "at": "2026-01-01T00:00:00Z",
            }
        },
    }

    patched = kubectl(
        "patch",
        "mdep/chat",
        "-n",
        namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": status}),
    )
    table = kubectl("get", "mdep", "-n", namespace, "-o", "wide").stdout.splitlines()

    assert (patched.returncode, patched.stderr) == (0, "")
    assert table[0].split() == [
        "NAME",
        "READY",
        "REPLICAS",
        "SERVING",
        "LAYOUT",
        "WHY",
        "PROGRESS",
        "START",
        "AGE",
        "CLASS",
        "MESSAGE",
    ]
    row = table[1].split()
    assert row[:7] + row[8:] == [
        "chat",
        "False",
        "1",
        "0",
        "tp2",
        "Starting",
        "RollingOut",
        "h100-sxm",
        *["0", "of", "1", "replicas", "serve"],
    ]


def test_a_class_is_found_by_its_short_name(kubectl: Kubectl) -> None:
    price = [{"name": "spot", "pricePerAcceleratorHour": "2.49"}]
    changes = {"metadata.name": "shown", "spec.device": "Cpu", "spec.supplies": price, **PERFORMANCE}
    manifest = changed(CLASS, changes)
    kubectl("create", "-f", "-", stdin=json.dumps(manifest))

    table = kubectl("get", "accel", "shown").stdout.splitlines()
    kubectl("delete", "accel", "shown")

    assert table[0].split() == ["NAME", "RESOURCE", "PER-NODE", "DEVICE", "MEMORY", "PRICE", "AGE"]
    assert table[1].split()[:6] == ["shown", "nvidia.com/gpu", "8", "Cpu", "81559Mi", "2.49"]
