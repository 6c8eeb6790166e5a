"""`modelfleet rollback` and `modelfleet rollout pause|resume|history`, with a kubectl of the test's own on the PATH."""

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import manual
from cli_tables import Captured
from modelfleet.api import names
from modelfleet.cli.main import main

NEW, OLD, OLDEST = "b" * 8, "a" * 8, "c" * 8
SPEC: dict[str, Any] = manual(3, engine={"image": "image:2"})["spec"]
PINNED = {key: part for key, part in SPEC.items() if key != "scaling"}
OBJECT: dict[str, Any] = {
    **manual(3),
    "metadata": {"name": "chat", "namespace": "team", "uid": "u1", "resourceVersion": "77", "labels": {"team": "red"}},
    "spec": SPEC,
    "status": {"plan": {"revision": NEW}},
}


def revision(name: str, number: int, image: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {"inputs": name + "0" * 56, "plan": {}}
    if image is not None:
        data["spec"] = {**PINNED, "engine": {"image": image}}
    return {"metadata": {"name": f"chat-{name}", "ownerReferences": [owner("u1")]}, "revision": number, "data": data}


def owner(uid: str, name: str = "chat") -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.DEPLOYMENT_KIND,
        "name": name,
        "uid": uid,
        "controller": True,
    }


REVISIONS = [revision(OLDEST, 1, "image:0"), revision(OLD, 2, "image:1"), revision(NEW, 3, "image:2")]


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a kubectl on the PATH that answers with these objects and notes what it is asked to patch."""

    def put(deployment: Any = OBJECT, revisions: Any = REVISIONS, refusal: str = "") -> Path:
        noted = tmp_path / "patch"
        answers = {"modeldeployments.modelfleet.dev": deployment, "controllerrevisions.apps": {"items": revisions}}
        script = f"""#!{sys.executable}
import sys
if {refusal!r} and sys.argv[1] == "patch":
    print({refusal!r}, file=sys.stderr)
    sys.exit(1)
if sys.argv[1] == "patch":
    open({str(noted)!r}, "w").write("\\n".join(sys.argv[1:]))
else:
    print({ {key: json.dumps(answer) for key, answer in answers.items()}!r}[sys.argv[2]])
"""
        (tmp_path / "kubectl").write_text(script)
        (tmp_path / "kubectl").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return noted

    return put


def run(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    out, err = capsys.readouterr()
    return status, out, err


def patched(noted: Path) -> Any:
    """The patch that kubectl was asked to send."""
    (text,) = (line for line in noted.read_text().splitlines() if line.startswith("--patch="))
    return json.loads(text.removeprefix("--patch="))


def image_of(noted: Path) -> str:
    return str(patched(noted)[1]["value"]["engine"]["image"])


def test_it_writes_the_spec_of_the_revision_before_onto_the_object_that_was_read(kubectl, capsys: Captured) -> None:
    noted = kubectl()
    status, out, err = run(capsys, "rollback", "chat", "-n", "team", "--context", "prod")
    assert (status, out, err) == (0, f"chat: spec.engine as in revision {OLD}\n", "")
    test, replace = patched(noted)
    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "77"}
    assert (replace["op"], replace["path"]) == ("replace", "/spec")
    assert replace["value"] == {**PINNED, "engine": {"image": "image:1"}, "scaling": SPEC["scaling"]}
    assert noted.read_text().splitlines()[-4:] == ["--namespace=team", "--context=prod", "--", "chat"]


@pytest.mark.parametrize(
    ("arguments", "serving", "image"),
    [
        pytest.param((), NEW, "image:1", id="the revision before"),
        pytest.param((), OLDEST, "image:0", id="the one that serves since the spec's was given up"),
        pytest.param(("--to", OLDEST), NEW, "image:0", id="the one that is named"),
    ],
)
def test_which_revision_it_goes_back_to(kubectl, capsys: Captured, arguments, serving: str, image: str) -> None:
    noted = kubectl({**OBJECT, "status": {"plan": {"revision": serving}}})
    assert run(capsys, "rollback", "chat", *arguments)[0] == 0
    assert image_of(noted) == image


@pytest.mark.parametrize(
    ("revisions", "arguments", "said"),
    [
        pytest.param([], (), "it has no revision yet; the operator has made no plan for it", id="no revision"),
        pytest.param(REVISIONS[2:], (), f"{NEW} is its only revision, so there is none to go back to", id="only one"),
        pytest.param(
            REVISIONS, ("--to", "nope"), f"it has no revision nope; there are {NEW}, {OLD}, {OLDEST}", id="unknown"
        ),
        pytest.param(REVISIONS, ("--to", NEW), f"the spec is that of revision {NEW} already", id="nothing to change"),
        pytest.param(
            [revision(OLD, 1, None), REVISIONS[2]],
            (),
            f"revision {OLD} was made by a version that did not keep its spec; write the earlier spec by hand",
            id="a revision without its spec",
        ),
    ],
)
def test_what_it_cannot_go_back_to_is_told(kubectl, capsys: Captured, revisions, arguments, said: str) -> None:
    noted = kubectl(revisions=revisions)
    assert run(capsys, "rollback", "chat", *arguments) == (1, "", f"modelfleet rollback: chat: {said}\n")
    assert not noted.exists()


def test_printing_writes_nothing_and_gives_a_manifest_to_commit(kubectl, capsys: Captured) -> None:
    noted = kubectl()
    status, out, _ = run(capsys, "rollback", "chat", "--print")
    printed = yaml.safe_load(out)
    assert (status, noted.exists()) == (0, False)
    assert printed["metadata"] == {"name": "chat", "namespace": "team", "labels": {"team": "red"}}
    assert printed["spec"]["engine"] == {"image": "image:1"}


def test_a_tool_that_delivers_the_object_is_named_because_it_puts_its_spec_back(kubectl, capsys: Captured) -> None:
    delivered = copy.deepcopy(OBJECT)
    delivered["metadata"]["managedFields"] = [{"manager": "kustomize-controller"}, {"manager": "modelfleet-status"}]
    kubectl(delivered)
    status, _, err = run(capsys, "rollback", "chat")
    assert status == 0
    assert err == (
        "modelfleet: kustomize-controller delivers chat and will put its own spec back: commit the change where that"
        " one is kept\n"
    )


def test_a_write_that_is_refused_is_told_as_kubectl_tells_it(kubectl, capsys: Captured) -> None:
    kubectl(refusal="Error from server (Forbidden): you cannot patch modeldeployments")
    status, _, err = run(capsys, "rollback", "chat")
    assert (status, err) == (
        2,
        "modelfleet rollback: kubectl refused: Error from server (Forbidden): you cannot patch modeldeployments\n",
    )


@pytest.mark.parametrize(("action", "paused"), [("pause", True), ("resume", False)])
def test_a_rollout_is_paused_and_resumed_by_its_field(kubectl, capsys: Captured, action: str, paused: bool) -> None:
    noted = kubectl()
    status, out, _ = run(capsys, "rollout", action, "chat")
    assert (status, out) == (0, f"chat: spec.rollout.paused is {str(paused).lower()}\n")
    assert patched(noted) == {"spec": {"rollout": {"paused": paused}}}


def test_the_history_says_what_can_be_gone_back_to(kubectl, capsys: Captured) -> None:
    kubectl(revisions=[revision(OLD, 1, None), REVISIONS[2]])
    status, out, _ = run(capsys, "rollout", "history", "chat")
    assert status == 0
    assert [line.split(maxsplit=2) for line in out.splitlines()[-2:]] == [
        ["3", NEW, "yes"],
        ["1", OLD, "no, an older version made it"],
    ]


@pytest.mark.parametrize(
    "of",
    [
        pytest.param([owner("u0")], id="an earlier object of the name"),
        pytest.param([owner("u2", "other")], id="another ModelDeployment"),
        pytest.param([], id="nobody"),
    ],
)
def test_a_revision_of_somebody_else_under_our_label_is_nothing_to_go_back_to(
    kubectl, capsys: Captured, of: Any
) -> None:
    foreign = copy.deepcopy(REVISIONS[1])
    foreign["metadata"]["ownerReferences"] = of
    kubectl(revisions=[foreign, REVISIONS[2]])
    status, _, err = run(capsys, "rollback", "chat")
    assert (status, err) == (
        1,
        f"modelfleet rollback: chat: {NEW} is its only revision, so there is none to go back to\n",
    )


@pytest.mark.parametrize("found", [5, [5, {"data": {"inputs": 7}}]], ids=["no list", "no revisions"])
def test_an_answer_that_lists_no_revisions_is_told(kubectl, capsys: Captured, found: Any) -> None:
    kubectl(revisions=found)
    status, _, err = run(capsys, "rollback", "chat")
    assert (status, err.startswith("modelfleet rollback: chat: it has no revision yet")) == (1, True)
