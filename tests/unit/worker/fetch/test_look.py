"""What a model at an address is made of, and what its sources are pinned to, without its weights."""

import json
from pathlib import Path
from typing import Any

import pytest

from fetch_runs import HASTY, HUB, REGISTRY, STORE, Dialect
from modelfleet_worker.failure import Failure
from modelfleet_worker.fetch.look import Look, look
from weight_servers import COMMIT, Fault, Shelf, model, serving

ALL = [pytest.param(dialect, id=f"a {dialect.name}") for dialect in (HUB, STORE, REGISTRY)]
LARGE = model(2, 3_000_000)


def looked(dialect: Dialect, shelf: Shelf, *more: str, folder: Path | None = None, **parts: Any) -> Any:
    with serving(dialect.handler, shelf) as address:
        source = dialect.source.replace("HOST", address)
        endpoint = "" if source.startswith("oci") else f"http://{address}"
        found = look(Look((source, *more), endpoint, dialect.secret, **parts), folder, HASTY)
    return found if isinstance(found, Failure) else json.loads(found)["model"]


@pytest.mark.parametrize("dialect", ALL)
def test_a_report_has_sizes_types_and_the_revision_and_costs_little(dialect: Dialect) -> None:
    shelf = dialect.shelf(LARGE, private=True)
    report = looked(dialect, shelf)
    assert report["config"] == {"architectures": ["LlamaForCausalLM"], "hidden_size": 64}
    assert (report["checkpointBytes"], report["dtypes"]) == (6_000_001, {"U8": 2})
    (revision,) = report["revisions"]
    assert revision == COMMIT if dialect is HUB else revision.startswith(("sha256:", "listing:"))
    assert shelf.sent_bytes() < 3 * 65536


def test_a_header_that_is_longer_than_the_guess_is_read_whole() -> None:
    header = {
        f"layer.{index}": {"dtype": "BF16", "shape": [2], "data_offsets": [4 * index, 4 * index + 4]}
        for index in range(3000)
    }
    text = json.dumps(header).encode()
    files = model(0) | {"model.safetensors": len(text).to_bytes(8, "little") + text + b"x" * 12000}
    report = looked(HUB, HUB.shelf(files))
    assert (report["checkpointBytes"], report["dtypes"]) == (12000, {"BF16": 3000})


def test_every_source_gets_its_revision_and_a_folder_none() -> None:
    report = looked(HUB, HUB.shelf(model()), "pvc://models/fp8", "hf://org/model@v1")
    assert report["revisions"] == [COMMIT, "", COMMIT]


def test_a_model_in_a_folder_with_a_variant_at_an_address(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 128}))
    with serving(HUB.handler, HUB.shelf(model())) as address:
        found = look(Look(("pvc://models/x", "hf://org/model"), f"http://{address}", {}), tmp_path, HASTY)
    assert isinstance(found, str)
    assert json.loads(found)["model"] == {"config": {"hidden_size": 128}, "revisions": ["", COMMIT]}


def test_a_server_that_falters_is_asked_again() -> None:
    faults = {"config.json": [Fault(status=503), Fault(after=3)], "/info": [Fault(status=500)]}
    assert looked(HUB, HUB.shelf(model(), faults=faults))["revisions"] == [COMMIT]


@pytest.mark.parametrize(
    ("files", "reason", "said"),
    [
        pytest.param({"config.json": b"[]"}, "ModelNotFound", "no *.safetensors", id="no weights"),
        pytest.param(model() | {"config.json": b"[]"}, "ModelRefused", "is not a JSON object", id="a list for config"),
        pytest.param(model() | {"config.json": b"{"}, "ModelRefused", "Expecting", id="no JSON"),
        pytest.param(
            model() | {"model-00001-of-00002.safetensors": b"<html>"},
            "ModelRefused",
            "no safetensors file",
            id="a page",
        ),
        pytest.param({"README.md": b"x"}, "ModelNotFound", "it has README.md", id="no model"),
    ],
)
def test_what_is_no_model_is_told(files: dict[str, bytes], reason: str, said: str) -> None:
    failure = looked(HUB, HUB.shelf(files))
    assert isinstance(failure, Failure)
    assert (failure.reason, said in failure.message) == (reason, True), failure.message


def test_what_is_looked_at_is_what_is_fetched() -> None:
    shelf = STORE.shelf(model() | {"modeling.py": b"print()"})
    without, with_code = looked(STORE, shelf)["revisions"], looked(STORE, shelf, code=True)["revisions"]
    assert without != with_code
    shelf.files["llama/README.png"] = b"another picture"
    assert looked(STORE, shelf)["revisions"] == without, "what is not fetched does not count"
