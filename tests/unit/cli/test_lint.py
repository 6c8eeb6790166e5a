"""`modelfleet lint`, as a user runs it."""

import io
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from api_cases import BAD, END_TO_END, GOOD
from api_objects import CLASS, DEPLOYMENT, OBJECTIVE, Bad, changed
from modelfleet.cli.main import main

SAMPLES = Path(__file__).parents[3] / "deploy" / "samples"

SLIPS = """\
# a comment
apiVersion: v1
kind: ConfigMap
metadata: {name: passed-over}
---
apiVersion: modelfleet.dev/v1alpha1
kind: ModelDeployment
metadata:
  name: chat
spec:
  model:
    source: https://example.com/llama
    servedName: chat
  objectives:
  - name: interactive
    ttft: 500ms
    tpot: 50
    load: {requestsPerSecond: 12}
    lengths:
      inputTokens: {p50: 900, p95: 4000}
      outputTokens: {p50: 250}
  accelerators: {classes: [h100-sxm]}
  scaling:
    minReplicas: 5
    maxReplicas: 4
"""

Captured = pytest.CaptureFixture[str]


def lint(capsys: Captured, *files: Path | str) -> tuple[int, list[str], list[str]]:
    status = main(["lint", *map(str, files)])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err.splitlines()


def sentences(lines: list[str]) -> list[str]:
    """Field and sentence of each line, without its place and its rule."""
    return [re.fullmatch(r".*?:\d+:\d+: (.*) \[[a-z0-9-]+\]", line)[1] for line in lines]  # type: ignore[index]


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "file.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_each_fault_is_one_line_with_file_line_column_field_sentence_and_rule(capsys: Captured, write: Any) -> None:
    path = write(SLIPS)

    status, out, err = lint(capsys, path)

    assert (status, err) == (1, [])
    assert [line.removeprefix(f"{path}:") for line in out] == [
        "12:5: spec.model.source: a source is hf://ORG/REPO@REVISION, s3://BUCKET/PREFIX,"
        " oci://REGISTRY/REPOSITORY:TAG, pvc://CLAIM/PATH or file:///PATH [form-of-model-source]",
        "13:5: spec.model.servedName: unknown field, did you mean servedNames? [unknown-field]",
        "17:5: spec.objectives[0].tpot: a duration is whole numbers with units h, m, s or ms, such as 500ms, 30s or"
        " 1m30s [form-of-positive-duration]",
        "21:7: spec.objectives[0].lengths.outputTokens.p95: is required: 95 % of all answers are at most this long"
        " [required-field]",
        "25:5: spec.scaling.maxReplicas: maxReplicas must not be below minReplicas [min-up-to-max]",
    ]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_every_bad_object_of_the_table_is_told(capsys: Captured, write: Any, case: Bad) -> None:
    path = write(yaml.safe_dump(case.manifest))

    status, out, _ = lint(capsys, path)

    assert status == 1
    assert sentences(out) == [f"{case.path}: {case.says}"]
    assert not out[0].endswith("[invalid]"), "its rule has no name of its own"


def test_every_good_object_of_the_table_is_fine(capsys: Captured, write: Any) -> None:
    path = write(yaml.safe_dump_all([case.manifest for case in GOOD]))

    assert lint(capsys, path) == (0, [f"{len(GOOD)} objects are fine"], [])


def test_there_is_a_sample_of_each_kind() -> None:
    kinds = {yaml.safe_load(path.read_text())["kind"] for path in SAMPLES.glob("*.yaml")}

    assert kinds == {"ModelDeployment", "AcceleratorClass", "ModelProfile"}


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_sample_is_fine(capsys: Captured, sample: Path) -> None:
    assert lint(capsys, sample) == (0, ["1 object is fine"], [])


def test_the_example_in_the_readme_is_fine(capsys: Captured, write: Any) -> None:
    examples = re.findall("```yaml\n(.*?)```", (SAMPLES.parents[1] / "README.md").read_text(), re.DOTALL)

    assert lint(capsys, write("---\n".join(examples))) == (0, ["1 object is fine"], [])


def test_json_and_lists_are_read_too(capsys: Captured, write: Any) -> None:
    items = [CLASS, changed(DEPLOYMENT, {"spec.model.source": "x"})]
    path = write(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))

    status, out, _ = lint(capsys, path)

    assert status == 1
    assert [line.split(": ")[0] for line in sentences(out)] == ["spec.model.source"]
    before = path.read_text().partition('"source"')[0]
    assert out[0].startswith(f"{path}:{before.count(chr(10)) + 1}:")


def test_standard_input_is_read(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SLIPS.encode())))

    status, out, _ = lint(capsys, "-")

    assert (status, out[0].partition(" ")[0]) == (1, "<stdin>:12:5:")


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        pytest.param({"kind": "ModelDeployment"}, "apiVersion: is required: modelfleet.dev/v1alpha1", id="no version"),
        pytest.param(
            {"apiVersion": "modelfleet.dev/v1", "kind": "ModelDeployment"},
            "apiVersion: modelfleet.dev/v1 is not served, write modelfleet.dev/v1alpha1",
            id="a version that is not served",
        ),
        pytest.param(
            {"apiVersion": "modelfleet.dev/v1alpha1", "kind": "ModelDeploymnt"},
            "kind: there is no kind ModelDeploymnt in modelfleet.dev/v1alpha1, did you mean ModelDeployment?",
            id="a kind with a slip",
        ),
        pytest.param(
            {"apiVersion": "modelfleet.dev/v1alpha1"},
            "kind: there is no kind None in modelfleet.dev/v1alpha1, did you mean ModelDeployment or"
            " AcceleratorClass or ModelProfile?",
            id="no kind",
        ),
        pytest.param(
            "text", "this is not a Kubernetes object: it needs apiVersion, kind, metadata and spec", id="text"
        ),
        pytest.param(
            {"metadata": {"name": "x"}, "spec": {}},
            "this object does not say what it is: it needs apiVersion and kind",
            id="no header",
        ),
        pytest.param({**CLASS, "metadata": None}, "metadata: is required", id="no metadata"),
        pytest.param(changed(CLASS, {"metadata": {}}), "metadata.name: is required: The object's name", id="no name"),
        pytest.param({**CLASS, "specs": {}}, "specs: unknown field, did you mean spec?", id="a field beside the spec"),
    ],
)
def test_an_object_that_is_hardly_one_is_told(capsys: Captured, write: Any, manifest: Any, says: str) -> None:
    status, out, _ = lint(capsys, write(yaml.safe_dump(manifest)))

    assert status == 1
    assert sentences(out) == [says]


@pytest.mark.parametrize("spelling", ["latency", "e2e", "endToEndLatency"])
def test_an_end_to_end_objective_gets_the_reason_whatever_it_is_called(
    capsys: Captured, write: Any, spelling: str
) -> None:
    path = write(yaml.safe_dump(changed(DEPLOYMENT, {f"{OBJECTIVE}.{spelling}": "5s"})))
    _, out, _ = lint(capsys, path)

    assert [line.partition(f"{spelling}: ")[2] for line in sentences(out)] == [END_TO_END]


def test_a_number_with_an_exponent_is_one_line_as_any_other_fault(capsys: Captured, write: Any) -> None:
    text = yaml.safe_dump(changed(DEPLOYMENT, {"spec.engine.args": {"max-num-seqs": "EXPONENT"}}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status, out, _ = lint(capsys, write(text.replace("EXPONENT", "1e+30")))

    assert (status, len(out)) == (1, 1)
    assert "spec.engine.args.max-num-seqs" in out[0]


def test_a_file_without_our_kinds_is_no_failure(capsys: Captured, write: Any) -> None:
    path = write("apiVersion: v1\nkind: Secret\n---\n# nothing\n---\n")

    nothing = "nothing to check: no ModelDeployment, AcceleratorClass or ModelProfile here"
    assert lint(capsys, path) == (0, [nothing], [])


MULTIPLIED = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 30)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("a: [1\nb: 2", "line 2: it is not YAML", id="an open bracket"),
        pytest.param("a: 1\na: 2", 'line 2: it is not YAML: found duplicate key "a"', id="a key twice"),
        pytest.param("\ta: 1", "line 1: it is not YAML", id="a tab"),
        pytest.param("a: *nowhere", "it is not YAML", id="an alias of nothing"),
        pytest.param(MULTIPLIED, "its aliases add more than 100,000 values", id="aliases of aliases"),
        pytest.param("a: &a [*a]", "its aliases add more than 100,000 values", id="an alias in itself"),
        pytest.param("[" * 600 + "]" * 600, "it is nested too deeply", id="too deep"),
        pytest.param(b"\xff\xfe\x00", "it is not UTF-8 text", id="another encoding"),
        pytest.param(b"a: \x00", "it is not YAML", id="a control character"),
        pytest.param("a: !!int x", "it is not YAML", id="a number that is none"),
        pytest.param("a: 2001-99-99", "it is not YAML", id="a date that is none"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(capsys: Captured, write: Any, text: str | bytes, says: str) -> None:
    path = write(text)

    status, out, err = lint(capsys, path)

    assert (status, out) == (2, [])
    (line,) = err
    assert line.startswith(f"modelfleet: {path}: ")
    assert says in line


def test_a_file_that_is_not_there_is_named_and_the_others_are_checked(
    capsys: Captured, tmp_path: Path, write: Any
) -> None:
    status, out, err = lint(capsys, tmp_path / "absent.yaml", write(SLIPS))

    assert (status, len(out)) == (2, 5)
    assert err == [f"modelfleet: {tmp_path}/absent.yaml: no such file or directory"]


def test_faults_before_a_syntax_error_are_told_too(capsys: Captured, write: Any) -> None:
    status, out, err = lint(capsys, write(SLIPS + "---\na: [\n"))

    assert (status, len(out), len(err)) == (2, 5, 1)


def test_yes_is_a_truth_value_as_it_is_for_kubectl(capsys: Captured, write: Any) -> None:
    text = yaml.safe_dump(changed(DEPLOYMENT, {"spec.engine.args": {"enforce-eager": "YES"}})).replace("'YES'", "yes")

    _, out, _ = lint(capsys, write(text))

    assert sentences(out) == ["spec.engine.args.enforce-eager: a flag's value is an integer or a string on one line"]
