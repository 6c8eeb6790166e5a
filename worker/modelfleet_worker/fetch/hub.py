"""`hf://`: a model hub that speaks Hugging Face's protocol. huggingface_hub asks it; bytes come through `http`.

huggingface_hub resumes a file by range and compares its size, not its checksum, and gives its lock no owner; so the
bytes are read here. Its Xet client is switched off: what it has of a file when it is killed cannot be gone on with.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx2

from modelfleet_worker.failure import Reason
from modelfleet_worker.fetch import http
from modelfleet_worker.fetch.remote import (
    Algorithm,
    Body,
    Checksum,
    FetchError,
    Listing,
    RemoteFile,
    TransientError,
)

os.environ.update({"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"})

from huggingface_hub import HfApi, errors, hf_hub_url

PUBLIC = "https://huggingface.co"
_ASKED_S = 30.0
T = TypeVar("T")


class Hub:
    """One repository. `endpoint` is the hub's address, empty for the public one."""

    def __init__(self, repository: str, revision: str, endpoint: str, token: str, client: httpx2.Client) -> None:
        self._repository, self._revision, self._http = repository, revision, client
        self._endpoint = endpoint or PUBLIC
        self._token: str | bool = token or False  # False: never a token that lies around in the image
        self._api = HfApi(endpoint=self._endpoint, token=self._token, library_name="modelfleet")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def listing(self) -> Listing:
        """The files at the commit that the revision is now."""

        def ask() -> Listing:
            info = self._api.model_info(
                self._repository, revision=self._revision, files_metadata=True, timeout=_ASKED_S
            )
            if re.fullmatch("[0-9a-f]{40,64}", info.sha or "") is None:
                raise TransientError(f"{self._endpoint} does not say which commit {self._revision} is")
            return Listing(str(info.sha), tuple(map(_file, info.siblings or ())))

        return self._asked(ask)

    @contextmanager
    def read(self, file: RemoteFile, offset: int, length: int | None = None) -> Iterator[Body]:
        """The file's content at the commit in its token."""
        url = hf_hub_url(self._repository, file.path, revision=self._revision, endpoint=self._endpoint)
        request = http.Request(url, f"{file.path} of {self._repository}", self._headers)
        with http.get(self._http, request, offset, length) as body:
            yield body

    def checksum(self, file: RemoteFile, headers: Mapping[str, str]) -> Checksum | None:
        """What the listing said."""
        return file.checksum

    def _asked(self, ask: Callable[[], T]) -> T:
        where = f"{self._repository}@{self._revision} at {self._endpoint}"
        try:
            return ask()
        except errors.GatedRepoError as error:
            raise http.refused(f"{where} is gated, and the token may not read it") from error
        except errors.RepositoryNotFoundError as error:
            if self._token:
                raise FetchError(
                    Reason.MODEL_NOT_FOUND,
                    f"There is no model {where} that the token may read.",
                    "Correct spec.model.source, or the token in spec.model.credentialsSecretRef.",
                ) from error
            raise FetchError(
                Reason.MODEL_NOT_FOUND,
                f"There is no model {where} that everybody may read.",
                "Correct spec.model.source; for a private model name a Secret in spec.model.credentialsSecretRef.",
            ) from error
        except errors.RevisionNotFoundError as error:
            raise FetchError(
                Reason.MODEL_NOT_FOUND,
                f"{self._repository} at {self._endpoint} has no revision {self._revision}.",
                "Correct the revision in spec.model.source.",
            ) from error
        except errors.HfHubHTTPError as error:
            http.check_status(error.response, where)
            raise TransientError(f"{where}: {error}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise TransientError(f"{where}: {http.said(error)}") from error
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise TransientError(f"{where}: the answer is not that of a model hub ({error})") from error


def _file(entry: Any) -> RemoteFile:
    if entry.size is None:
        raise TransientError(f"the hub does not say how large {entry.rfilename} is")
    checksum: Checksum | None = None
    if entry.lfs is not None:
        checksum = Checksum(Algorithm.SHA256, str(entry.lfs.sha256))
    elif entry.blob_id:
        checksum = Checksum(Algorithm.GIT_BLOB, str(entry.blob_id))
    return RemoteFile(str(entry.rfilename), int(entry.size), checksum)
