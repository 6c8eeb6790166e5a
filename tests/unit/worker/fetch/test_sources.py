"""The same model from each kind of server, through the client of each; and what is said where it is not given."""

import hashlib
import json
import socket
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from fetch_runs import HUB, REGISTRY, STORE, Dialect, files_of, run
from modelfleet_worker.failure import Failure
from weight_servers import COMMIT, TOKEN, Fault, RegistryHandler, model, serving, tensors

ALL = [pytest.param(dialect, id=f"a {dialect.name}") for dialect in (HUB, STORE, REGISTRY)]


def refused(dialect: Dialect, tmp_path: Path, files: dict[str, bytes] | None = None, **parts: Any) -> Failure:
    """The failure of one fetch. `order`, `secret` and `handler` go to their places, the rest to the shelf."""
    order, secret, handler = (parts.pop(key, {}) for key in ("order", "secret", "handler"))
    with serving(dialect.handler, dialect.shelf(files or model(), **parts), **handler) as address:
        failure = run(dialect.order(address, tmp_path / "store", **order), secret=secret)
    assert failure is not None
    return failure


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("private", [pytest.param(False, id="open"), pytest.param(True, id="private")])
def test_a_model_comes_whole_and_is_published(dialect: Dialect, private: bool, tmp_path: Path) -> None:
    shelf = dialect.shelf(model(), private=private)
    with serving(dialect.handler, shelf) as address:
        order = dialect.order(address, tmp_path / "store")
        assert run(order, secret=dialect.secret if private else {}) is None
    assert files_of(order.root / "models" / "k1") == model()
    progress = json.loads((tmp_path / "run" / "fetch.json").read_text())
    assert (progress["state"], progress["percent"], progress["fetchedBytes"]) == ("done", 100, shelf.sent_bytes())


@pytest.mark.parametrize("dialect", ALL)
def test_a_second_pod_asks_no_server(dialect: Dialect, tmp_path: Path) -> None:
    with serving(dialect.handler, dialect.shelf(model())) as address:
        order = dialect.order(address, tmp_path / "store")
        assert run(order) is None
    assert run(order, pod="pod-2") is None
    assert sorted(mark.name for mark in (order.root / "use" / "k1").iterdir()) == ["pod-1", "pod-2"]


@pytest.mark.parametrize(
    ("dialect", "reason", "said"),
    [
        pytest.param(HUB, "ModelNotFound", "that everybody may read", id="a hub, which hides what is private"),
        pytest.param(STORE, "CredentialsRefused", "(InvalidAccessKeyId)", id="a store"),
        pytest.param(REGISTRY, "CredentialsRefused", "HTTP 401", id="a registry"),
    ],
)
def test_a_private_model_without_credentials(dialect: Dialect, reason: str, said: str, tmp_path: Path) -> None:
    failure = refused(dialect, tmp_path, private=True)
    assert (failure.reason, said in failure.message) == (reason, True)
    assert "spec.model.credentialsSecretRef" in failure.remedy


@pytest.mark.parametrize("dialect", ALL)
def test_wrong_credentials_are_not_shown(dialect: Dialect, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    failure = refused(dialect, tmp_path, private=True, secret=dict.fromkeys(dialect.secret, "Wr0ng"))
    assert failure.reason in ("CredentialsRefused", "ModelNotFound")
    assert "Wr0ng" not in failure.to_json() + caplog.text


def test_a_signed_address_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with serving(STORE.handler, STORE.shelf(model(), private=True)) as address:
        assert run(STORE.order(address, tmp_path / "store"), secret=STORE.secret) is None
    assert "Signature" not in caplog.text


@pytest.mark.parametrize(
    ("dialect", "source"),
    [
        pytest.param(HUB, "hf://org/other@main", id="a hub"),
        pytest.param(STORE, "s3://other/llama", id="a bucket"),
        pytest.param(STORE, "s3://weights/other", id="a prefix"),
        pytest.param(REGISTRY, "oci://HOST/org/other:v1", id="a registry"),
    ],
)
def test_a_model_that_is_not_there(dialect: Dialect, source: str, tmp_path: Path) -> None:
    with serving(dialect.handler, dialect.shelf(model())) as address:
        failure = run(Dialect("x", None, source, dialect.revision, {}).order(address, tmp_path / "store"))
    assert failure is not None
    assert failure.reason == "ModelNotFound"


def test_a_revision_that_is_not_there(tmp_path: Path) -> None:
    failure = refused(HUB, tmp_path, order={"revision": "f" * 40})
    assert (failure.reason, "has no revision ffff" in failure.message) == ("ModelNotFound", True)


@pytest.mark.parametrize(
    ("dialect", "revision"),
    [
        pytest.param(STORE, "listing:" + "0" * 64, id="a bucket that was written to"),
        pytest.param(REGISTRY, "sha256:" + "0" * 64, id="a digest that the registry does not have"),
    ],
)
def test_a_source_that_is_not_what_was_planned(dialect: Dialect, revision: str, tmp_path: Path) -> None:
    failure = refused(dialect, tmp_path, order={"revision": revision})
    assert failure.reason in ("WeightsChanged", "ModelNotFound")


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize(
    "name", ["../evil.safetensors", "/etc/evil.safetensors", "a/../../evil.safetensors", "a//b.safetensors", "a\\..\\b"]
)
def test_a_name_that_leaves_its_folder_is_refused(dialect: Dialect, name: str, tmp_path: Path) -> None:
    failure = refused(dialect, tmp_path, {**model(), name: tensors(9, 10)})
    assert (failure.reason, "no plain path" in failure.message) == ("ModelRefused", True)
    assert [path.name for path in tmp_path.rglob("*evil*")] == []


def test_pickles_are_refused_unless_allowed(tmp_path: Path) -> None:
    files = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    failure = refused(HUB, tmp_path, files)
    assert (failure.reason, "pytorch_model.bin" in failure.message) == ("ModelRefused", True)
    with serving(HUB.handler, HUB.shelf(files)) as address:
        order = HUB.order(address, tmp_path / "store", pickled=True)
        assert run(order) is None
    assert files_of(order.root / "models" / "k1") == files


@pytest.mark.parametrize(
    ("allowed", "there"),
    [
        pytest.param({}, False, id="neither code nor pickles"),
        pytest.param({"code": True}, True, id="code where it is allowed"),
    ],
)
def test_what_no_engine_needs_is_not_fetched(allowed: dict[str, bool], there: bool, tmp_path: Path) -> None:
    more = {
        "modeling.py": b"print()",
        "pytorch_model.bin": b"p",
        "model.onnx": b"o",
        "a.gguf": b"g",
        ".gitattributes": b"",
    }
    with serving(HUB.handler, HUB.shelf(model() | more)) as address:
        order = HUB.order(address, tmp_path / "store", **allowed)
        assert run(order) is None
    expected = model() | ({"modeling.py": b"print()"} if there else {})
    assert files_of(order.root / "models" / "k1") == expected


def test_layers_that_are_archives_are_refused(tmp_path: Path) -> None:
    failure = refused(REGISTRY, tmp_path, handler={"archives": True})
    assert (failure.reason, "oras push" in failure.remedy) == ("ModelRefused", True)


def test_a_hub_that_is_none(tmp_path: Path) -> None:
    with serving(RegistryHandler, HUB.shelf(model())) as address:
        failure = run(HUB.order(address, tmp_path / "store"))
    assert failure is not None
    assert failure.reason == "ModelNotFound"


def test_the_mark_of_a_folder_in_a_bucket_is_no_file(tmp_path: Path) -> None:
    shelf = STORE.shelf(model())
    shelf.files |= {"llama/": b"", "llama/more/": b"", "llama/more/note.json": b"{}"}
    with serving(STORE.handler, shelf) as address:
        order = STORE.order(address, tmp_path / "store")
        assert run(order) is None
    assert files_of(order.root / "models" / "k1") == model() | {"more/note.json": b"{}"}


def test_a_listing_is_asked_for_again(tmp_path: Path) -> None:
    shelf = HUB.shelf(model(), faults={"/info": [Fault(status=503), Fault(status=429, headers={"Retry-After": "0"})]})
    with serving(HUB.handler, shelf) as address:
        assert run(HUB.order(address, tmp_path / "store")) is None


def test_the_commit_is_in_the_address_of_every_file(tmp_path: Path) -> None:
    shelf = HUB.shelf(model())
    with serving(HUB.handler, shelf) as address:
        assert run(HUB.order(address, tmp_path / "store")) is None
    asked = [path for path in shelf.asked if "/resolve/" in path]
    assert len(asked) == len(model())
    assert all(f"/resolve/{COMMIT}/" in path for path in asked)


def test_an_artifact_s_revision_is_its_manifest_s_digest(tmp_path: Path) -> None:
    with serving(REGISTRY.handler, REGISTRY.shelf(model())) as address:
        order = REGISTRY.order(address, tmp_path / "store")
        assert run(order) is None
    manifest = json.loads((order.root / "models" / "k1" / ".modelfleet.json").read_text())
    assert manifest["revision"].startswith("sha256:")
    assert len(hashlib.sha256().hexdigest()) == len(manifest["revision"].removeprefix("sha256:"))


def test_progress_is_on_the_status_port_meanwhile(tmp_path: Path) -> None:
    shelf = HUB.shelf(model(), faults={"model-00001-of-00002.safetensors": [Fault(after=100_000)]})
    pages: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shelf.on_fault = lambda _: pages.append(urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
    with serving(HUB.handler, shelf) as address:
        assert run(HUB.order(address, tmp_path / "store"), port=port) is None
    assert f"modelfleet_worker_fetch_total_bytes {float(sum(map(len, model().values())))}" in pages[0]


def test_a_token_is_not_sent_to_where_a_hub_sends_on(tmp_path: Path) -> None:
    shelf, other = HUB.shelf(model(), private=True), HUB.shelf(model())
    with serving(HUB.handler, other) as elsewhere, serving(HUB.handler, shelf, sends_on=elsewhere) as address:
        assert run(HUB.order(address, tmp_path / "store"), secret=HUB.secret) is None
    assert other.sent_bytes() == sum(map(len, model().values()))
    assert other.authorizations == {""}
    assert f"Bearer {TOKEN}" in shelf.authorizations
