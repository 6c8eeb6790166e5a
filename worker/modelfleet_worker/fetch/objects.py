"""`s3://`: an object store. obstore lists and signs; bytes come through `http`.

boto3 was not taken: it needs python-dateutil 2, and the Kubernetes client needs 3. obstore needs no other package.
Without credentials requests are anonymous: a node's own role is never used for a user.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import obstore
from obstore import exceptions
from obstore.store import S3Store

from modelfleet_worker.failure import Reason
from modelfleet_worker.fetch import http
from modelfleet_worker.fetch.remote import (
    MOST_FILES,
    Algorithm,
    Body,
    Checksum,
    FetchError,
    Listing,
    RemoteFile,
    TransientError,
    listing_digest,
)

_LINK_LIVES = timedelta(hours=12)
_REGION = "us-east-1"


class Objects:
    """The objects below a prefix of a bucket."""

    def __init__(self, location: str, endpoint: str, secret: Mapping[str, str], client: httpx2.Client) -> None:
        self._bucket, _, self._prefix = location.partition("/")
        region = secret.get("region", _REGION)
        self._endpoint = endpoint or f"https://s3.{region}.amazonaws.com"
        self._http, self._where = client, f"s3://{location} at {self._endpoint}"
        self._anonymous = not secret.get("accessKeyId")
        options: Any = {"endpoint": self._endpoint, "region": region}
        if self._anonymous:
            options["skip_signature"] = True
        else:
            options |= {"access_key_id": secret["accessKeyId"], "secret_access_key": secret.get("secretAccessKey", "")}
        if secret.get("sessionToken"):
            options["session_token"] = secret["sessionToken"]
        self._store = S3Store(
            self._bucket,
            config=options,
            client_options={"allow_http": True, "timeout": timedelta(seconds=60)},
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=60)},
        )

    def listing(self) -> Listing:
        """The objects now; the revision is the digest of names, sizes and ETags."""
        prefix = f"{self._prefix}/" if self._prefix else ""
        found: list[RemoteFile] = []
        try:
            for batch in obstore.list(self._store, prefix=prefix or None, chunk_size=1000):
                found += [_file(entry, prefix) for entry in batch if entry["path"].startswith(prefix)]
                if len(found) > MOST_FILES:
                    break
        except exceptions.BaseError as error:
            raise self._error(error) from error
        files = tuple(_without_folders(found))
        if not files:
            raise FetchError(
                Reason.MODEL_NOT_FOUND, f"There is nothing at {self._where}.", "Correct spec.model.source."
            )
        return Listing(listing_digest(files), files)

    @contextmanager
    def read(self, file: RemoteFile, offset: int, length: int | None = None) -> Iterator[Body]:
        """The object's content, if it still is the one that was listed."""
        key = f"{self._prefix}/{file.path}" if self._prefix else file.path
        if self._anonymous:
            url = f"{self._endpoint}/{self._bucket}/{quote(key)}"
        else:
            url = obstore.sign(self._store, "GET", key, _LINK_LIVES)
        request = http.Request(url, f"{file.path} of {self._where}", {})
        with http.get(self._http, request, offset, length) as body:
            if file.token and body.headers.get("etag", file.token) != file.token:
                raise changed(self._where, f"{file.path} was written anew since it was listed")
            yield body

    def checksum(self, file: RemoteFile, headers: Mapping[str, str]) -> Checksum | None:
        """An ETag is the MD5 of an object that was sent in one piece and not encrypted with a key of its own."""
        etag = headers.get("etag", "").strip('"')
        plain = headers.get("x-amz-server-side-encryption", "AES256") == "AES256"
        own_key = "x-amz-server-side-encryption-customer-algorithm" in headers
        if plain and not own_key and re.fullmatch("[0-9a-f]{32}", etag):
            return Checksum(Algorithm.MD5, etag)
        return None

    def _error(self, error: exceptions.BaseError) -> FetchError | TransientError:
        text = str(error)
        if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError) or re.search(
            "AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|403 Forbidden|401 Unauthorized", text
        ):
            return http.refused(f"The server refuses to list {self._where}{_code(text)}")
        if isinstance(error, exceptions.NotFoundError) or "NoSuchBucket" in text:
            return FetchError(Reason.MODEL_NOT_FOUND, f"There is no {self._where}.", "Correct spec.model.source.")
        if "invalid path" in text:
            return FetchError(
                Reason.MODEL_REFUSED,
                f"{self._where} has a name that is no plain path below the model's folder: {_first_line(text)}.",
                "Rename that object, or do not use this source.",
            )
        return TransientError(f"{self._where}: {_first_line(text)}")


def changed(where: str, how: str) -> FetchError:
    """The source no longer has what the plan was made from."""
    return FetchError(
        Reason.WEIGHTS_CHANGED,
        f"{where} is not what this revision was planned with: {how}.",
        "Write a new model to a new prefix and name that in spec.model.source; replicas of one revision are alike.",
    )


def _file(entry: Any, prefix: str) -> RemoteFile:
    return RemoteFile(entry["path"].removeprefix(prefix), int(entry["size"]), None, str(entry["e_tag"] or ""))


def _without_folders(found: list[RemoteFile]) -> Iterator[RemoteFile]:
    """Consoles mark a folder by an empty object of its name."""
    folders = {parent for file in found for parent in _parents(file.path)}
    return (file for file in found if file.path and (file.size or file.path not in folders))


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _code(text: str) -> str:
    match = re.search("<Code>([A-Za-z]{1,64})</Code>", text)
    return f" ({match[1]})" if match else ""


def _first_line(text: str) -> str:
    return text.splitlines()[0][:300] if text else "no answer"
