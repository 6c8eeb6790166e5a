"""What a model at an address is made of, read without its weights: its configuration, and the headers of its files."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet.api.sources import ModelSource, Scheme
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.fetch.remote import FetchError, RemoteFile, Source, TransientError, listing_digest
from modelfleet_worker.fetch.run import listed, open_source
from modelfleet_worker.fetch.transfer import Patience
from modelfleet_worker.fetch.wanted import SAFETENSORS, wanted
from modelfleet_worker.inspect import checkpoint, inspect, sizes, written
from modelfleet_worker.json_fields import parsed
from modelfleet_worker.preflight import CONFIG_LIMIT_BYTES
from modelfleet_worker.safetensors import header_length, header_of

_GUESS_BYTES = 64 << 10  # most headers are shorter: one request instead of two
_STREAMS = 8
_PATIENCE = Patience(read_s=15.0, attempts=4)


@dataclass(frozen=True)
class Look:
    """Sources, the model's first, then its variants'; how they are reached; and what may be fetched of them."""

    sources: tuple[str, ...]
    endpoint: str
    secret: Mapping[str, str]
    pickled: bool = False
    code: bool = False


def look(asked: Look, folder: Path | None = None, patience: Patience = _PATIENCE) -> str | Failure:
    """The report with a revision for each source (empty for a folder), or why there is none. With `folder` the model is
    there, and only variants are at addresses."""
    try:
        revisions, model = [], None
        for text in asked.sources:
            source = ModelSource(text)
            if not source.is_fetched:
                revisions.append("")
                continue
            place, files, revision = _pinned(asked, source, patience)
            revisions.append(revision)
            if len(revisions) == 1 and folder is None:
                model = _described(place, files, patience)
        if folder is not None:
            return _with_revisions(inspect(folder), revisions)
        return written({**(model or {}), "revisions": revisions}, asked.sources[0])
    except FetchError as error:
        return error.failure()
    except ValueError as error:
        remedy = "Mend the files at the source, or name another in spec.model.source."
        return Failure(
            reason=Reason.MODEL_REFUSED, message=f"{asked.sources[0]}: {error}.", remedy=remedy, phase="fetch"
        )


def _with_revisions(report: str | Failure, revisions: list[str]) -> str | Failure:
    if isinstance(report, Failure):
        return report
    return written({**json.loads(report)["model"], "revisions": revisions}, "the model's config.json")


def _pinned(asked: Look, source: ModelSource, patience: Patience) -> tuple[Source, tuple[RemoteFile, ...], str]:
    """The source at the revision that it has now, its files, and that revision."""
    place = open_source(source, source.revision, asked.endpoint, asked.secret, patience)
    listing = listed(place, patience)
    files = wanted(listing, pickled=asked.pickled, code=asked.code)
    if source.scheme is Scheme.S3:
        return place, files, listing_digest(files)
    at = open_source(source, listing.revision, asked.endpoint, asked.secret, patience)
    return at, files, listing.revision


def _described(place: Source, files: tuple[RemoteFile, ...], patience: Patience) -> dict[str, Any]:
    config_file = next(file for file in files if file.path == "config.json")
    if config_file.size > CONFIG_LIMIT_BYTES:
        raise ValueError("its config.json is larger than 4 MiB")
    config = parsed(_bytes(place, config_file, 0, config_file.size, patience), "its config.json", ValueError)
    if not isinstance(config, dict):
        raise ValueError("its config.json is not a JSON object")
    stored = [file for file in files if file.path.endswith(SAFETENSORS) and "/" not in file.path]
    with ThreadPoolExecutor(_STREAMS) as pool:
        headers = list(pool.map(lambda file: _header(place, file, patience), stored))
    return {"config": sizes(config), **checkpoint(headers)}


def _header(place: Source, file: RemoteFile, patience: Patience) -> dict[str, Any]:
    start = _bytes(place, file, 0, min(_GUESS_BYTES, file.size), patience)
    end = 8 + header_length(start[:8], file.path)
    if end > len(start):
        start += _bytes(place, file, len(start), end - len(start), patience)
    return header_of(start[8:end], file.path)


def _bytes(place: Source, file: RemoteFile, offset: int, length: int, patience: Patience) -> bytes:
    return patience.asked(lambda: _read(place, file, offset, length), f"{file.path} cannot be read")


def _read(place: Source, file: RemoteFile, offset: int, length: int) -> bytes:
    with place.read(file, offset, length) as body:
        skip, found = offset - body.start, b""
        for chunk in body.chunks:
            found += chunk
            if len(found) >= skip + length:
                break
    if len(found) < skip + length:
        raise TransientError(f"{file.path} ended after {len(found)} bytes")
    return found[skip : skip + length]
