"""Servers whose listings lie, and users whose Secret or endpoint no request can carry: one sentence, and no secret in
it."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fetch_runs import HUB, REGISTRY, STORE, Dialect, files_of, run
from modelfleet_worker.failure import Failure
from modelfleet_worker.fetch import http
from modelfleet_worker.fetch.order import credentials
from modelfleet_worker.fetch.remote import FetchError
from modelfleet_worker.fetch.transfer import Patience
from weight_servers import COMMIT, HubHandler, RegistryHandler, model, serving

Change = Callable[[Any], Any]


def hub(change: Change) -> type[HubHandler]:
    """A hub whose answer about the model goes through `change`."""

    class Changed(HubHandler):
        def _info(self) -> None:
            siblings = [self._sibling(path, body) for path, body in self.shelf.files.items()]
            value = change({"id": "org/model", "sha": COMMIT, "siblings": siblings})
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.say(200, body, {"Content-Type": "application/json"})

    return Changed


def registry(change: Change) -> type[RegistryHandler]:
    """A registry whose manifest goes through `change`."""

    class Changed(RegistryHandler):
        def _manifest(self) -> bytes:
            value = change(json.loads(super()._manifest()))
            return value if isinstance(value, bytes) else json.dumps(value).encode()

    return Changed


def first(of: str, **said: Any) -> Change:
    """Says something else of the first file."""
    return lambda value: value | {of: [value[of][0] | said, *value[of][1:]]}


def more(*siblings: dict[str, Any]) -> Change:
    return lambda value: value | {"siblings": [*value["siblings"], *siblings]}


def fetched(dialect: Dialect, handler: Any, root: Path, **more: Any) -> Failure | None:
    with serving(handler, dialect.shelf(model(1, 3000))) as address:
        return run(dialect.order(address, root), **more)


HUB_LIES = [
    pytest.param(first("siblings", size=-5), "ModelRefused", "has -5 bytes", id="a size below zero"),
    pytest.param(first("siblings", size="abc"), "FetchFailed", "not that of a model hub", id="a size in words"),
    pytest.param(first("siblings", size=[1]), "FetchFailed", "not that of a model hub", id="a list for a size"),
    pytest.param(first("siblings", size=1 << 80), "DiskFull", "need 1.21e+15 GB", id="a size beyond all disks"),
    pytest.param(first("siblings", rfilename="\ud800"), "ModelRefused", "'\\ud800'", id="a name that is no text"),
    pytest.param(first("siblings", rfilename="a/../b"), "ModelRefused", "no plain path", id="a name that climbs"),
    pytest.param(
        more({"rfilename": "config.json/x.json", "size": 1, "blobId": "0" * 40}),
        "ModelRefused",
        "config.json as a file and as a folder",
        id="a file below a file",
    ),
    pytest.param(lambda v: v | {"sha": "../../main"}, "FetchFailed", "which commit", id="a commit that is none"),
    pytest.param(lambda v: v | {"sha": 5}, "FetchFailed", "not that of a model hub", id="a number for a commit"),
    pytest.param(lambda _: b"[" * 100_000, "FetchFailed", "not that of a model hub", id="an answer without a bottom"),
    pytest.param(lambda _: b"<html>", "FetchFailed", "not that of a model hub", id="a page for people"),
]


@pytest.mark.parametrize(("change", "reason", "said"), HUB_LIES)
def test_a_hub_that_lies_is_told_by(change: Change, reason: str, said: str, tmp_path: Path) -> None:
    failure = fetched(HUB, hub(change), tmp_path / "store")
    assert failure is not None
    assert (failure.reason, said in failure.message) == (reason, True), failure.message
    assert json.loads(failure.to_json())["phase"] == "fetch"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(first("layers", annotations="x"), "lists no layers", id="notes that are a text"),
        pytest.param(first("layers", size=float("inf")), "lists no layers", id="a size without end"),
        pytest.param(first("layers", size=-4), "has -4 bytes", id="a size below zero"),
        pytest.param(lambda _: b"[" * 100_000, "lists no layers", id="a manifest without a bottom"),
    ],
)
def test_a_registry_that_lies_is_told_by(change: Change, said: str, tmp_path: Path) -> None:
    failure = fetched(REGISTRY, registry(change), tmp_path / "store")
    assert failure is not None
    assert (failure.reason, said in failure.message) == ("ModelRefused", True), failure.message


@pytest.mark.parametrize(
    ("dialect", "secret"),
    [
        pytest.param(HUB, {"token": "hf_right\nX"}, id="a token of two lines"),
        pytest.param(HUB, {"token": "hf_r\u00e4t"}, id="a token that is no ASCII"),
        pytest.param(STORE, {"accessKeyId": "user", "secretAccessKey": "ri ght"}, id="a key with a blank"),
        pytest.param(STORE, {"accessKeyId": "user", "secretAccessKey": "hidden", "region": "eu\n"}, id="a region"),
    ],
)
def test_a_secret_that_cannot_be_sent_is_named_and_not_shown(
    dialect: Dialect, secret: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failure = fetched(dialect, dialect.handler, tmp_path / "store", secret=secret)
    assert failure is not None
    assert failure.reason == "CredentialsRefused"
    key = next(reversed(secret)) if dialect is STORE else "token"
    assert f"key {key} holds" in failure.message
    assert not any(value in failure.to_json() + caplog.text for value in secret.values() if value != "user")


def test_a_line_break_behind_a_value_is_no_part_of_it(tmp_path: Path) -> None:
    secret = credentials({"MODELFLEET_CREDENTIAL_token": "hf_right\n", "OTHER": "x"})
    assert secret == {"token": "hf_right"}


@pytest.mark.parametrize(
    "endpoint", ["http://[::1", "http://exa mple", "http://h:99999", "ftp://h", "nonsense", "http://"]
)
@pytest.mark.parametrize("dialect", [HUB, STORE], ids=lambda dialect: dialect.name)
def test_an_endpoint_that_is_no_address_is_refused(dialect: Dialect, endpoint: str, tmp_path: Path) -> None:
    failure = run(replace(dialect.order("h", tmp_path / "store"), endpoint=endpoint))
    assert failure is not None
    assert (failure.reason, "no address of a server" in failure.message) == ("ModelNotFound", True)


def _sends_on(location: str) -> httpx2.MockTransport:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/a":
            return httpx2.Response(302, headers={"Location": location})
        return httpx2.Response(200, stream=httpx2.ByteStream(b"bytes"))

    return httpx2.MockTransport(answer)


def _got(url: str, location: str) -> bytes:
    with (
        http.client(1.0, _sends_on(location)) as client,
        http.get(client, http.Request(url, "it", {}), 0, None) as body,
    ):
        return b"".join(body.chunks)


def test_a_server_does_not_send_on_to_one_without_tls_or_to_a_file() -> None:
    with pytest.raises(FetchError, match="hub sends on to an address without TLS"):
        _got("https://hub/a", "http://elsewhere/b")
    assert _got("https://hub/a", "https://elsewhere/b") == b"bytes"
    assert _got("http://hub/a", "http://elsewhere/b") == b"bytes"
    with pytest.raises(FetchError, match="hub sends on to a file address"):
        _got("http://hub/a", "file:///etc/passwd")


def test_a_question_whose_answer_never_ends_is_given_up() -> None:
    patience = Patience(attempts=2, backoff_s=0.0, answer_s=0.05)
    with pytest.raises(FetchError, match=r"no whole answer came within 0\.05 s; 2 attempts"):
        patience.asked(lambda: time.sleep(60), "It cannot be listed")


def test_what_a_kill_left_behind_a_whole_model_goes_at_the_next_start(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert fetched(HUB, HUB.handler, store) is None
    left = store / "partial" / "k1"
    left.mkdir()
    (left / "expected").write_text("3000")  # it would count as room that is taken
    assert fetched(HUB, HUB.handler, store) is None
    assert not left.exists()


@pytest.mark.parametrize("text", ['{"files": []}', '{"files": [], "bytes": "x"}', "[" * 100_000, "[]"])
def test_a_mangled_manifest_is_no_whole_model(text: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert fetched(HUB, HUB.handler, store) is None
    (store / "models" / "k1" / ".modelfleet.json").write_text(text)
    assert fetched(HUB, HUB.handler, store) is None
    assert files_of(store / "models" / "k1") == model(1, 3000)
