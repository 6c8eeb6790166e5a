"""A registry's tokens live for minutes, and a model takes longer: another is asked for, once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import httpx2
import pytest

from fetch_runs import REGISTRY, files_of, run
from modelfleet_worker.failure import Failure
from modelfleet_worker.fetch import http
from modelfleet_worker.fetch.registry import Registry
from modelfleet_worker.fetch.remote import FetchError, RemoteFile
from weight_servers import Fault, Shelf, model, serving

SHARD = "model-00001-of-00002.safetensors"
THREADS = 4


def fetched(shelf: Shelf, root: Path) -> Failure | None:
    with serving(REGISTRY.handler, shelf) as address:
        return run(REGISTRY.order(address, root), secret=REGISTRY.secret)


def starts(shelf: Shelf) -> list[int]:
    """From which bytes on the first shard was sent."""
    return [first for path, first, _ in shelf.sent if path == SHARD]


def test_a_token_that_is_over_in_the_middle_of_a_file_is_replaced_and_the_file_gone_on_with(tmp_path: Path) -> None:
    shelf = REGISTRY.shelf(model(), private=True, faults={SHARD: [Fault(after=100_000, how="end")]})
    shelf.on_fault = lambda _: shelf.let_in.clear()
    assert fetched(shelf, tmp_path / "store") is None
    assert files_of(tmp_path / "store" / "models" / "k1") == model()
    assert starts(shelf) == [0, 100_000]


def test_a_registry_that_refuses_its_own_new_token_is_told_and_not_asked_for_ever(tmp_path: Path) -> None:
    shelf = REGISTRY.shelf(model(), private=True, faults={SHARD: [Fault(after=100_000)]})

    def bar(_: str) -> None:
        shelf.worthless = True
        shelf.let_in.clear()

    shelf.on_fault = bar
    failure = fetched(shelf, tmp_path / "store")
    assert failure is not None
    assert (failure.reason, "HTTP 401" in failure.message) == ("CredentialsRefused", True)
    assert 2 <= shelf.tokens <= 1 + THREADS


def test_threads_that_are_refused_at_once_share_one_new_token() -> None:
    shelf = REGISTRY.shelf(model(THREADS), private=True)
    with serving(REGISTRY.handler, shelf) as address, http.client(10.0) as client:
        registry = Registry(f"{address}/org/model", "v1", REGISTRY.secret, client)
        files = registry.listing().files[-THREADS:]
        shelf.let_in.clear()
        shelf.on_refused = Barrier(THREADS, timeout=10).wait

        def read(file: RemoteFile) -> int:
            with registry.read(file, 0) as body:
                return sum(map(len, body.chunks))

        with ThreadPoolExecutor(THREADS) as pool:
            assert list(pool.map(read, files)) == [file.size for file in files]
    assert shelf.tokens == 2, "one for the listing and one for the four"


def test_a_registry_that_fails_when_it_is_first_asked_does_not_look_as_if_it_needed_no_credentials(
    tmp_path: Path,
) -> None:
    shelf = REGISTRY.shelf(model(), private=True, faults={"/info": [Fault(status=503)]})
    assert fetched(shelf, tmp_path / "store") is None


def test_an_open_registry_is_asked_for_no_token(tmp_path: Path) -> None:
    shelf = REGISTRY.shelf(model())
    assert fetched(shelf, tmp_path / "store") is None
    assert (shelf.tokens, shelf.authorizations) == (0, {""})


def test_a_server_that_a_registry_sends_on_to_gets_no_credentials() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        if request.url.host == "registry":
            return httpx2.Response(307, headers={"Location": "https://elsewhere/blob"})
        return httpx2.Response(401, headers={"WWW-Authenticate": 'Bearer realm="https://elsewhere/token"'})

    with http.client(1.0, httpx2.MockTransport(answer)) as client:
        registry = Registry("registry/org/model", "v1", REGISTRY.secret, client)
        with pytest.raises(FetchError, match="HTTP 401"):
            registry.listing()
    assert asked == ["https://registry/v2/org/model/manifests/v1", "https://elsewhere/blob"]
