"""Which files `modelfleet lint` looks at: folders, patterns, templates, and what is none of ours."""

from pathlib import Path

import pytest
import yaml

from api_objects import CLASS, DEPLOYMENT, changed
from modelfleet.cli.main import main

Captured = pytest.CaptureFixture[str]
BAD = yaml.safe_dump(changed(DEPLOYMENT, {"spec.scaling.minReplicas": 0}))
FINE = yaml.safe_dump(dict(CLASS))
TEMPLATE = """\
apiVersion: modelfleet.dev/v1alpha1
kind: ModelDeployment
metadata:
  name: {{ .Release.Name }}-chat
spec:
{{- toYaml .Values.spec | nindent 2 }}
"""
SKIPPED = "skipped, it is a Helm template; render it first: helm template CHART | modelfleet lint -"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with manifests among other files."""
    files = {
        "deploy/bad.yaml": BAD,
        "deploy/deep/down/class.yml": FINE,
        "deploy/class.json": '{"apiVersion": "modelfleet.dev/v1alpha1", "kind": "AcceleratorClass"}',
        "deploy/.hidden/bad.yaml": BAD,
        "deploy/values.yaml": "a: 1\n",
        "deploy/playbook.yaml": "- hosts: all\n",
        "deploy/broken.yaml": "a: [\n",
        "deploy/notes.txt": BAD,
        "chart/Chart.yaml": "name: chat\n",
        "chart/templates/chat.yaml": TEMPLATE,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def lint(capsys: Captured, *arguments: Path | str) -> tuple[int, list[str], list[str]]:
    status = main(["lint", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err.splitlines()


def files(lines: list[str], root: Path) -> list[str]:
    return [str(Path(line.split(":")[0]).relative_to(root)) for line in lines]


def test_a_folder_is_searched_and_what_is_not_ours_is_passed_over(capsys: Captured, tree: Path) -> None:
    status, out, err = lint(capsys, tree / "deploy")

    assert (status, err) == (1, [])
    assert files(out, tree) == ["deploy/bad.yaml", "deploy/class.json", "deploy/class.json"]


def test_a_pattern_is_expanded_here_if_the_shell_did_not(capsys: Captured, tree: Path) -> None:
    status, out, _ = lint(capsys, f"{tree}/**/*.yml")

    assert (status, out) == (0, ["1 object is fine"])


@pytest.mark.parametrize("argument", ["nothing/*.yaml", "nothing.yaml"])
def test_an_argument_that_names_no_file_is_told(capsys: Captured, tree: Path, argument: str) -> None:
    status, out, err = lint(capsys, tree / argument)

    assert (status, out) == (2, [])
    assert err[0].startswith(f"modelfleet: {tree}/{argument}: no ")


def test_an_empty_folder_is_no_failure(capsys: Captured, tmp_path: Path) -> None:
    status, (said,), err = lint(capsys, tmp_path)

    assert (status, err) == (0, [])
    assert said.startswith("nothing to check: no ModelDeployment")


def test_a_helm_template_is_skipped_with_a_sentence(capsys: Captured, tree: Path) -> None:
    template = tree / "chart" / "templates" / "chat.yaml"

    status, _, err = lint(capsys, template, tree / "deploy" / "deep")

    assert (status, err) == (0, [f"modelfleet: {template}: {SKIPPED}"])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEMPLATE, id="actions on lines of their own"),
        pytest.param("a: {{ .Values.a }}\n", id="an action as a value"),
        pytest.param("{{ .Values.a }}: {\n", id="an action as a key"),
        pytest.param('items:\n  - {{ include "x" . }}\n', id="an action as an item"),
    ],
)
def test_a_template_is_known_outside_of_a_chart_too(capsys: Captured, tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)

    status, _, err = lint(capsys, path)

    assert (status, err) == (0, [f"modelfleet: {path}: {SKIPPED}"])


def test_braces_in_quotes_are_no_template(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(yaml.safe_dump(changed(CLASS, {"metadata.annotations": {"note": "see {{ .Values.a }}"}})))

    assert lint(capsys, path) == (0, ["1 object is fine"], [])


def test_a_file_that_is_named_is_checked_whatever_it_is_and_with_only_ours_if_it_is_ours(
    capsys: Captured, tree: Path
) -> None:
    playbook, broken, bad = (tree / "deploy" / name for name in ("playbook.yaml", "broken.yaml", "bad.yaml"))

    assert lint(capsys, playbook, broken)[0] == 2
    assert lint(capsys, "--only-ours", playbook, broken)[0] == 0
    assert lint(capsys, "--only-ours", playbook, broken, bad)[0] == 1
