"""What a user wrote that goes into requests: refused in a sentence before a library meets it. Pure.

Libraries show a header that they cannot send, with the token in it, or break off.
"""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from modelfleet_worker.failure import Reason
from modelfleet_worker.fetch.remote import FetchError

_SENT = ("token", "accessKeyId", "secretAccessKey", "sessionToken", "region")
"""Keys of the Secret that are sent as they are, in a header or an address."""
_PLAIN = re.compile("[!-~]*")


def check_credentials(secret: Mapping[str, str]) -> None:
    """Raises FetchError; it names the key and never its value."""
    for key in _SENT:
        wanted = re.compile("[A-Za-z0-9._-]*") if key == "region" else _PLAIN
        if wanted.fullmatch(secret.get(key, "")) is None:
            raise FetchError(
                Reason.CREDENTIALS_REFUSED,
                f"The Secret's key {key} holds a character that cannot be sent, such as a blank or a line break.",
                "Write the value again, without what is not part of it.",
            )


def check_endpoint(endpoint: str) -> None:
    """Raises FetchError for what is no address of a server. Empty: the public one."""
    try:
        parts = urlsplit(endpoint)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that are not closed, a port that is none
        good = False
    if endpoint and not (good and _PLAIN.fullmatch(endpoint)):
        raise FetchError(
            Reason.MODEL_NOT_FOUND,
            f"{endpoint[:200]!r} is no address of a server.",
            "Write spec.model.endpoint as https://HOST or https://HOST:PORT.",
        )
