"""Calls of webhooks: a review is posted over TLS, and its answer is checked, as kube-apiserver does both."""

from __future__ import annotations

import asyncio
import base64
import binascii
import http.client
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from ctrlhost_sandbox.apimachinery import status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext

_LARGEST_ANSWER = 8 * 1024 * 1024
_LONGEST_TEXT = 2048
_SLICES = "discovery.k8s.io/endpointslices"


class CallFailed(Exception):
    """A webhook sent no usable answer."""


class NoClient(CallFailed):
    """A webhook cannot be called, whether or not it listens."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """Where a webhook listens."""

    url: str
    """As in messages."""
    name: str
    """The host that its certificate has to name."""
    address: tuple[str, int]
    path: str


async def call(context: ServerContext, client: Mapping[str, Any], review: Object, seconds: int) -> Object:
    """Post a review to the place that a `clientConfig` names, and return the answer's document; raise CallFailed."""
    authorities = _authorities(client.get("caBundle") or "")
    endpoint = _endpoint(context, client, seconds)
    body = msgspec.json.encode(review)
    try:
        return await asyncio.wait_for(_in_thread(lambda: _post(endpoint, authorities, body, seconds)), seconds)
    except TimeoutError:
        raise _failed(endpoint, "context deadline exceeded") from None


def _in_thread(work: Callable[[], Object]) -> asyncio.Future[Object]:
    """Call `work` in a thread of its own, for which the end of the process does not wait."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Object] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            set_outcome(outcome)

    def run() -> None:
        outcome: tuple[Callable[[Any], None], Any]
        try:
            outcome = (future.set_result, work())
        except Exception as error:  # noqa: BLE001 - the waiting request gets it
            outcome = (future.set_exception, error)
        # The server may have stopped meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="webhook", daemon=True).start()
    return future


def without_nulls(document: Object, depth: int = 4) -> Object:
    """Return a document without members that are null: they are as if missing. Lists keep theirs."""
    return {
        key: without_nulls(value, depth - 1) if depth and type(value) is dict else value
        for key, value in document.items()
        if value is not None
    }


def _failed(endpoint: _Endpoint, why: str) -> CallFailed:
    return CallFailed(f'Post "{endpoint.url}": {why}')


@lru_cache(maxsize=64)
def _authorities(bundle: str) -> ssl.SSLContext:
    """Return the verification of servers by a bundle of certificates, without one by those of the system."""
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii") if bundle else None)
    except (ssl.SSLError, binascii.Error, UnicodeDecodeError, ValueError):
        raise NoClient("unable to load root certificates: unable to parse bytes as PEM block") from None


def _endpoint(context: ServerContext, client: Mapping[str, Any], seconds: int) -> _Endpoint:
    """Return the place of a webhook, which has a URL or a Service."""
    if (url := client.get("url")) is not None:
        parts = urlsplit(url)
        path = f"{parts.path or '/'}?timeout={seconds}s"
        text = f"https://{parts.netloc}{path}"
        try:
            address = (parts.hostname or "", parts.port or 443)
        except ValueError:
            port = parts.netloc.rpartition(":")[2]
            raise CallFailed(f'Post "{text}": dial tcp: address {port}: invalid port') from None
        return _Endpoint(text, address[0], address, path)
    service: Mapping[str, Any] = client["service"]
    name, namespace, port = service["name"], service["namespace"], service.get("port", 443)
    host, path = f"{name}.{namespace}.svc", f"{service.get('path') or '/'}?timeout={seconds}s"
    endpoint = _Endpoint(f"https://{host}:{port}{path}", host, (host, port), path)
    address = context.options.services.get(f"{namespace}/{name}") or _ready(context, endpoint, namespace, name, port)
    return _Endpoint(endpoint.url, host, address, path)


def _ready(context: ServerContext, endpoint: _Endpoint, namespace: str, name: str, port: int) -> tuple[str, int]:
    """Return an address of a Service by its EndpointSlices."""
    service = context.store.table("services").get(namespace, name)
    if service is None:
        raise _failed(endpoint, f'service "{name}" not found')
    ports = service.decode()["spec"].get("ports") or ()
    wanted = next((entry.get("name", "") for entry in ports if entry.get("port") == port), None)
    for snapshot in context.store.table(_SLICES).list(namespace):
        part = snapshot.decode()
        if (part["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != name:
            continue
        number = next((entry.get("port") for entry in part.get("ports") or () if entry.get("name", "") == wanted), None)
        for target in part.get("endpoints") or ():
            if number and (target.get("conditions") or {}).get("ready", True) and target.get("addresses"):
                return target["addresses"][0], number
    raise _failed(endpoint, f'no endpoints available for service "{name}"')


def _post(endpoint: _Endpoint, authorities: ssl.SSLContext, body: bytes, seconds: int) -> Object:
    """Post a review, in a thread of its own."""
    connection = _Connection(endpoint, authorities, seconds)
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, */*",
        "User-Agent": "kube-apiserver-admission",
    }
    try:
        connection.request("POST", endpoint.path, body, headers)
        answer = connection.getresponse()
        content = answer.read(_LARGEST_ANSWER + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # A host or path that cannot be encoded is a ValueError.
        raise _failed(endpoint, _reason(endpoint, error)) from None
    finally:
        connection.close()
    if not 200 <= answer.status <= 206:
        raise CallFailed(_refusal(answer, content))
    if len(content) > _LARGEST_ANSWER:
        raise CallFailed(f"the answer is longer than {_LARGEST_ANSWER >> 20} MiB")
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallFailed(f"couldn't get version/kind; json parse error: {error}") from None
    if type(document) is not dict:
        raise CallFailed("couldn't get version/kind; json parse error: it is not an object")
    return document


class _Connection(http.client.HTTPSConnection):
    """A connection to an address that may differ from the name in the certificate."""

    def __init__(self, endpoint: _Endpoint, authorities: ssl.SSLContext, seconds: int) -> None:
        super().__init__(endpoint.name, endpoint.address[1], timeout=seconds, context=authorities)
        self._address, self._authorities = endpoint.address, authorities

    def connect(self) -> None:
        """Connect to the address."""
        plain = socket.create_connection(self._address, self.timeout)
        # Headers and body are sent apart, and the second must not wait for the acknowledgement of the first.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self._authorities.wrap_socket(plain, server_hostname=self.host)


def _reason(endpoint: _Endpoint, error: Exception) -> str:
    """Return the cause in the words of Go."""
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_certificate_problem(error)}"
    if isinstance(error, ConnectionRefusedError):
        host, port = endpoint.address
        return f"dial tcp {host}:{port}: connect: connection refused"
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {endpoint.address[0]}: no such host"
    if isinstance(error, http.client.RemoteDisconnected | http.client.IncompleteRead):
        return "EOF"
    return str(error)


def _certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    if "expired" in error.verify_message or "not yet valid" in error.verify_message:
        return "certificate has expired or is not yet valid"
    if "mismatch" in error.verify_message:
        return f"certificate is not valid for the name: {error.verify_message}"
    return "certificate signed by unknown authority"


_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def _refusal(answer: http.client.HTTPResponse, content: bytes) -> str:
    """Return the message of an answer that is no success."""
    code, media = answer.status, answer.getheader("Content-Type", "")
    text = content[:_LONGEST_TEXT].decode("utf-8", "replace").strip()
    if not media.startswith("text/") and media:
        text = "unknown"
    if code in _TEXTS:
        return _TEXTS[code]
    if code in (403, 406, 415):
        return text
    if code >= 500:
        return f"an error on the server ({status.show(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
