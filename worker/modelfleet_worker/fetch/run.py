"""`modelfleet-worker fetch`: the weights of a plan are in the store when it ends, or it says why not."""

import logging
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

from modelfleet.api.sources import ModelSource, Scheme
from modelfleet_worker.failure import Failure
from modelfleet_worker.fetch import http
from modelfleet_worker.fetch.asking import check_credentials, check_endpoint
from modelfleet_worker.fetch.evict import Room, folder_bytes, gigabytes, make_room
from modelfleet_worker.fetch.kept import COMPILED
from modelfleet_worker.fetch.objects import changed
from modelfleet_worker.fetch.order import Order
from modelfleet_worker.fetch.page import shown
from modelfleet_worker.fetch.progress import FILE, Progress
from modelfleet_worker.fetch.remote import FetchError, Listing, RemoteFile, Source, listing_digest
from modelfleet_worker.fetch.silence import GiveUp, bounded
from modelfleet_worker.fetch.store import Store, Waits, touch
from modelfleet_worker.fetch.transfer import Job, Patience, StoppedError, fetch_file, unwritable
from modelfleet_worker.fetch.wanted import wanted

_STREAMS = 4
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Errand:
    """An order with what it needs besides: the user's credentials, who asks, where progress goes (a folder, and
    a port for /metrics), and patience. `give_up` is called where it gets no further and nothing in it can end it: it
    has to end the process. None: it is waited for."""

    order: Order
    secret: Mapping[str, str]
    pod: str
    runtime: Path
    port: int | None = None
    patience: Patience = field(default_factory=Patience)
    give_up: GiveUp | None = None


def fetch(errand: Errand) -> Failure | None:
    """Fetches once for all pods that share the store; None when the model is there and marked as used by this pod."""
    try:
        _fetch(errand)
    except FetchError as error:
        return error.failure()
    except OSError as error:  # of the volume: errors of the network are TransientError
        return unwritable(error).failure()
    return None


def open_source(
    source: ModelSource, revision: str, endpoint: str, secret: Mapping[str, str], patience: Patience
) -> Source:
    """A client for a source at a revision. Raises FetchError for an endpoint or a Secret that no request can carry."""
    check_endpoint(endpoint)
    check_credentials(secret)
    client = http.client(patience.read_s)
    # Imported late: each of the libraries takes a while, and one is needed.
    if source.scheme is Scheme.HF:
        from modelfleet_worker.fetch.hub import Hub

        return Hub(source.location, revision, endpoint, secret.get("token", ""), client)
    if source.scheme is Scheme.S3:
        from modelfleet_worker.fetch.objects import Objects

        return Objects(source.location, endpoint, secret, client)
    from modelfleet_worker.fetch.registry import Registry

    return Registry(source.location, revision, secret, client)


def listed(source: Source, patience: Patience) -> Listing:
    """The source's files, asked for as patiently as for their bytes. Raises FetchError."""
    return patience.asked(source.listing, "The source cannot be listed")


def _fetch(errand: Errand) -> None:
    store = Store(errand.order.root)
    progress = Progress(errand.runtime)
    page = shown(progress, errand.port) if errand.port is not None else nullcontext()
    give_up, silent_s = errand.give_up, errand.patience.silent_s
    with page, bounded(progress, silent_s, give_up) if give_up is not None else nullcontext():
        _fetch_into(errand, store, progress)


def _fetch_into(errand: Errand, store: Store, progress: Progress) -> None:
    order = errand.order
    store.prepare()
    waits = Waits(lambda: progress.waits(store.partial(order.key)))
    with store.locked(order.key, waits):
        manifest = store.whole(order.key)
        if manifest is None:
            manifest = _bring(errand, store, progress)
        else:
            store.discard(store.partial(order.key))  # of one who was killed right after the model appeared
        if order.shared:
            (store.root / COMPILED).mkdir(exist_ok=True)  # the worker's mount: made by root, it might not be writable
            touch(store.mark(order.key, errand.pod))
            store.forget_marks(order.key, time.time())
        progress.done(int(manifest["bytes"]))


def _bring(errand: Errand, store: Store, progress: Progress) -> dict[str, Any]:
    """Fetches what is missing and publishes it."""
    order = errand.order
    revision = order.revision or order.source.revision
    source = open_source(order.source, revision, order.endpoint, errand.secret, errand.patience)
    listing = listed(source, errand.patience)
    files = wanted(listing, pickled=order.pickled, code=order.code)
    _check_revision(order, listing, files)
    partial = store.partial(order.key)
    total = sum(file.size for file in files)
    (partial / "files").mkdir(parents=True, exist_ok=True)
    there = min(folder_bytes(partial / "files") + folder_bytes(partial / "parts"), total)
    room = Room(order.key, total - there, there, order.size_bytes, order.max_age_s)
    with store.locked("evict", Waits(lambda: None)):
        for key in make_room(store, room, time.time()):
            _log.info("the model %s went, to make room or because of its age", key)
        store.expect(order.key, total)
    progress.shown_in(partial)
    progress.begin(there, total)
    _log.info(
        "%s at %s: %d files, %s, %s of them are here",
        order.source,
        listing.revision,
        len(files),
        gigabytes(total),
        gigabytes(there),
    )
    unchecked = _all(errand, source, files, partial, progress)
    if unchecked:
        _log.warning("the server states no checksum for %d files; size and headers were checked", len(unchecked))
    manifest = {
        "source": str(order.source),
        "revision": listing.revision,
        "bytes": total,
        "files": [{"path": file.path, "size": file.size} for file in files],
        "withoutChecksum": sorted(unchecked),
    }
    store.publish(order.key, manifest)
    return manifest


def _check_revision(order: Order, listing: Listing, files: tuple[RemoteFile, ...]) -> None:
    """A place without revisions is what was planned with only if its files still are."""
    now = listing_digest(files) if order.source.scheme is Scheme.S3 else listing.revision
    if order.revision and now != order.revision:
        raise changed(str(order.source), f"it is {now[:24]} now, and was {order.revision[:24]}")


def _all(errand: Errand, source: Source, files: tuple[RemoteFile, ...], partial: Path, progress: Progress) -> list[str]:
    """Several files at a time; the first failure ends the others. Gives the files without a checksum."""
    stop, unchecked = Event(), list[str]()

    def one(file: RemoteFile) -> None:
        part = partial / "parts" / sha256(file.path.encode()).hexdigest()[:32]
        target = partial / "files" / file.path
        told = (progress.moved, progress.checked, unchecked.append)
        fetch_file(Job(source, file, part, target, errand.patience, *told, stop))

    with ThreadPoolExecutor(_STREAMS) as pool:
        work = [pool.submit(one, file) for file in files]
        done, _ = wait(work, return_when=FIRST_EXCEPTION)
        failed = [each.exception() for each in done if each.exception() is not None]
        if failed:
            stop.set()
            for each in work:
                each.cancel()
    errors = [error for each in work if not each.cancelled() and (error := each.exception()) is not None]
    for error in errors:
        if not isinstance(error, StoppedError):
            raise error
    return unchecked


__all__ = ["FILE", "Errand", "fetch", "listed", "open_source"]
