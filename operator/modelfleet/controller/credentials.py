"""Where the API server is and who we are to it: in-cluster, or a kubeconfig. I/O.

Tokens are read again each minute.
"""

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, incluster_config, kube_config

_log = logging.getLogger(__name__)

_REREAD_S = 60.0


class CredentialsError(Exception):
    """There is no usable way to the API server; the text is one sentence for the user."""


async def load(kubeconfig: str | None, context: str | None = None) -> Configuration:
    """Credentials from `kubeconfig`, else $KUBECONFIG, else the pod's service account, else ~/.kube/config.

    `context` chooses one of a kubeconfig's; without it its current one.

    The Configuration is bound to the running loop's thread; load one for each.
    Raises CredentialsError.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG")
    if path is None and context is None and incluster_config.SERVICE_HOST_ENV_NAME in os.environ:
        configuration = Configuration()
        try:
            incluster_config.load_incluster_config(configuration)
        except (ConfigException, OSError) as error:
            raise CredentialsError(f"the pod's service account cannot be used: {error}") from error
        return _with_proxy(configuration)
    path = path or str(Path.home() / ".kube" / "config")
    configuration = Configuration()
    await _read_kubeconfig(path, configuration, context)
    configuration.refresh_api_key_hook = _Rereader(path, context)  # type: ignore[assignment]  # declared as None upstream
    return _with_proxy(configuration)


def _with_proxy(configuration: Configuration) -> Configuration:
    """With the environment's proxy, looked up once: the session would look for it, and for ~/.netrc, in a thread at
    every request."""
    configuration.client_session_kwargs = {"trust_env": False}
    where = urlsplit(configuration.host)
    if configuration.proxy is None and where.hostname and not proxy_bypass(where.hostname):
        configuration.proxy = getproxies().get(where.scheme)
    return configuration


async def _read_kubeconfig(path: str, into: Configuration, context: str | None) -> None:
    missing = [part for part in path.split(os.pathsep) if not os.path.isfile(part)]  # noqa: ASYNC240 - one stat
    if missing:
        raise CredentialsError(
            f"there is no kubeconfig at {missing[0]}; give --kubeconfig, or run in a pod with a service account"
        )
    try:
        await kube_config.load_kube_config(path, context=context, client_configuration=into, persist_config=False)
    except (ConfigException, OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        raise CredentialsError(f"the kubeconfig {path} cannot be used: {' '.join(str(error).split())}") from error


class _Rereader:
    """The client's hook before each request. A token file (or an exec plugin's token) may have been renewed."""

    def __init__(self, path: str, context: str | None) -> None:
        self._path, self._context = path, context
        self._read_at = asyncio.get_running_loop().time()

    async def __call__(self, configuration: Configuration) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._read_at < _REREAD_S:
            return
        self._read_at = now
        fresh = Configuration()
        try:
            await _read_kubeconfig(self._path, fresh, self._context)
        except CredentialsError as error:
            _log.warning("going on with the credentials that were read before: %s", error)
            return
        configuration.api_key = fresh.api_key


async def authorization(configuration: Configuration) -> str | None:
    """The Authorization header's value at this moment; None with a client certificate alone."""
    value: Any = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    return None if value is None else str(value)


def tls(configuration: Configuration) -> ssl.SSLContext:
    """What the client itself builds from the configuration, for a session beside it."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
