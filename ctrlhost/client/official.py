"""The official Python client over a client of ctrlhost: its REST layer sends through the same transport.

`kubernetes` is imported with this module, so this module is imported on first use only: it takes a second.
"""

from __future__ import annotations

import copy
import io
import threading
from http.client import responses
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import msgspec
import yaml
from kubernetes import client as kubernetes_client
from kubernetes.stream import ws_client
from urllib3 import HTTPResponse

from ctrlhost.client.pod_logs import NEVER_IDLE
from ctrlhost.client.retry import retried
from ctrlhost.client.target import Target, WriteVerb
from ctrlhost.client.written_path import WrittenPath, parse
from ctrlhost.errors import ApiError, CtrlhostError, TransportError
from ctrlhost.transport.interface import DEFAULT_TIMEOUT, HttpRequest, Response
from ctrlhost.transport.steps import carry_out, may_block
from ctrlhost.transport.wrapped import WrappedTransport
from ctrlhost.yaml_text import load_document

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from websocket import WebSocket

    from ctrlhost.client.requests import Requests
    from ctrlhost.transport.interface import Stream
    from ctrlhost.transport.steps import Steps

_VERBS: dict[str, WriteVerb] = {"POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}
#: Headers that describe how the body was sent, not the body that is handed on.
_OF_THE_CONNECTION = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_STREAMING = frozenset({"exec", "attach", "portforward"})
_PROTOCOLS = (ws_client.V5_CHANNEL_PROTOCOL, ws_client.V4_CHANNEL_PROTOCOL)

_lock = threading.Lock()
#: Of each thread: the function in place of `call_api`.
_replaced = threading.local()
_create_websocket: Any = ws_client.create_websocket


class _NotSupported(CtrlhostError, NotImplementedError):
    """A use of the official client that needs a connection of its own."""

    def __str__(self) -> str:
        return f"{self.message}\n\nhint: {self.hint}"


def official_client(client: Requests) -> kubernetes_client.ApiClient:
    """Return the `ApiClient` of a client, the same one at each call. Callable from any thread."""
    with _lock:
        api_client = client._official  # noqa: SLF001 - its field for this function
        # A client that was derived from this one has its own.
        if not isinstance(api_client, _ApiClient) or api_client.over is not client:
            api_client = client._official = _ApiClient(client)  # noqa: SLF001
        return api_client


class _ApiClient(kubernetes_client.ApiClient):
    """An `ApiClient` without connections of its own."""

    def __init__(self, client: Requests) -> None:
        """Send through the transport of `client`."""
        host = client.transport.url or "https://kubernetes.default.svc"
        configuration = kubernetes_client.Configuration(host=host.rstrip("/"))
        configuration.proxy = None
        super().__init__(configuration)
        self.over = client
        configuration.over = client
        # The generated REST layer encodes bodies and makes exceptions; only its connection pool is replaced.
        pool: Any = _Pool(client, host.rstrip("/"))
        self.rest_client.pool_manager = pool

    def call_api(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request, or let `kubernetes.stream` do it in the thread in which it has replaced this function."""
        call = getattr(_replaced, "call_api", None) or super().call_api
        return call(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        # `kubernetes.stream` replaces it for one call; those of other threads are sent meanwhile.
        if name == "call_api":
            _replaced.call_api = None if value == self.call_api else value
        else:
            super().__setattr__(name, value)


class _Pool:
    """What the REST layer uses of a `urllib3.PoolManager`."""

    def __init__(self, client: Requests, host: str) -> None:
        self._client = client
        self._host = host

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | str | None = None,
        fields: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Any = None,
        **_options: Any,
    ) -> HTTPResponse:
        """Send a request and return its whole response, whatever its status."""
        if not url.startswith(f"{self._host}/"):
            raise ValueError(f"the official client sends to {self._host} only, not to {url}")
        if fields:
            url += f"{'&' if '?' in url else '?'}{urlencode(fields)}"
        parts = urlsplit(url.removeprefix(self._host))
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        _refuse_streams(parts.path, query)
        payload = body.encode() if isinstance(body, str) else body
        sent = _Sent(method, parts.path, query, payload, dict(headers or {}), _seconds(timeout))
        if _is_set(query, "follow"):
            return _following(self._client, sent)
        response = _followed(self._client, sent) or _plainly(self._client, sent)
        return HTTPResponse(
            body=io.BytesIO(response.body),
            headers={name: value for name, value in response.headers.items() if name not in _OF_THE_CONNECTION},
            status=response.status,
            reason=responses.get(response.status),
            preload_content=False,
        )

    def clear(self) -> None:
        """Do nothing: the connections are the client's."""


class _Sent(msgspec.Struct, frozen=True):
    """A request as the REST layer has it."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes | None
    headers: dict[str, str]
    timeout: float

    @property
    def content_type(self) -> str:
        """The media type of the body."""
        return self.headers.get("Content-Type", "application/json")

    @property
    def verb(self) -> WriteVerb | None:
        """What the request does to an object, None if it only reads or only tries."""
        if self.query.get("dryRun"):
            return None
        verb = _VERBS.get(self.method)
        return "apply" if verb == "patch" and "apply-patch" in self.content_type else verb


def _plainly(client: Requests, sent: _Sent) -> Response:
    """Send a request that no cache has to know of."""
    request = HttpRequest(sent.method, sent.path, sent.query, sent.body, sent.headers, sent.timeout)
    return carry_out(retried(client.transport, request))


def _followed(client: Requests, sent: _Sent) -> Response | None:
    """Send a write as the client's own verb does, so that later reads see it; None if it is no write of an object."""
    verb, at = sent.verb, parse(sent.path)
    if verb is None or at is None or at.subresource.startswith("proxy"):
        return None
    content = _content(sent)
    target = None if content is None and sent.body else _target(client, verb, at, content, sent)
    if target is None:
        return None
    query = sent.query if verb == "delete" else {"fieldManager": client.field_manager, **sent.query}
    client = copy.copy(client)
    client.transport = answered = _Answered(client.transport)
    steps = client._write(verb, target, query, content, content_type=sent.content_type, timeout=sent.timeout)  # noqa: SLF001
    try:
        carry_out(steps)
    except (ApiError, TransportError):
        # The official client has exceptions of its own for a failure that the server answered.
        if answered.last is None:
            raise
    return answered.last


class _Answered(WrappedTransport):
    """Keeps the last response."""

    last: Response | None = None

    def steps(self, request: HttpRequest) -> Steps[Response]:
        self.last = yield from super().steps(request)
        return self.last


def _target(client: Requests, verb: WriteVerb, at: WrittenPath, content: Any, sent: _Sent) -> Target | None:
    """Return what a path names; None for a kind that the server does not list, and for a whole collection."""
    try:
        resource = carry_out(client.resources.of_plural(at.api_version, at.plural, transport=client.discovery))
    except ApiError:
        return None
    name: Any = at.name
    if verb == "create" and not at.subresource:
        metadata = content.get("metadata") if isinstance(content, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
    elif not name:
        return None
    target = Target(resource, at.namespace, name if isinstance(name, str) else None, at.subresource or None)
    path = target.path(collection=verb == "create" and target.subresource is None)
    return target if unquote(path) == unquote(sent.path) else None


def _content(sent: _Sent) -> Any:
    """Return the body decoded; None if there is none, or if it is neither JSON nor YAML."""
    try:
        return msgspec.json.decode(sent.body or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    if "yaml" not in sent.content_type:
        return None
    try:
        return load_document(sent.body or b"")
    except (yaml.YAMLError, ValueError):
        return None


def _is_set(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("true", "1")


def _following(client: Requests, sent: _Sent) -> HTTPResponse:
    """Return the response of a log that is followed while it arrives."""
    request = HttpRequest(sent.method, sent.path, sent.query, None, sent.headers, sent.timeout, idle=NEVER_IDLE)
    try:
        return _FollowedLog(client.transport.open(request))
    except ApiError as error:
        status = {"kind": "Status", "status": "Failure", "code": error.status, "message": error.message}
        body = msgspec.json.encode({**status, "reason": error.reason, "details": {"causes": list(error.causes)}})
        return HTTPResponse(body=io.BytesIO(body), status=error.status, preload_content=False)


class _FollowedLog(HTTPResponse):
    """A response whose pieces are those of the stream, as soon as they arrive."""

    def __init__(self, stream: Stream) -> None:
        headers = {"content-type": stream.content_type or "text/plain"}
        super().__init__(body=_Bytes(stream), headers=headers, status=200, preload_content=False)
        self._pieces = stream

    def stream(self, amt: int | None = None, decode_content: bool | None = None) -> Generator[bytes, None, None]:  # noqa: ARG002
        """Return the pieces."""
        while piece := self._pieces.read():
            yield piece


class _Bytes(io.RawIOBase):
    """A stream as a file, for those who read the whole body."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._rest = stream, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._rest or self._stream.read()
        count = min(len(buffer), len(data))
        buffer[:count], self._rest = data[:count], data[count:]
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def _websocket(configuration: Any, url: str, headers: Mapping[str, str] | None = None) -> WebSocket:
    """Open a WebSocket of `kubernetes.stream`: over the client whose configuration it is, else as ever."""
    client: Requests | None = getattr(configuration, "over", None)
    if client is None:
        other: WebSocket = _create_websocket(configuration, url, headers)
        return other
    may_block()
    path = urlsplit(url)._replace(scheme="", netloc="").geturl()
    parts = urlsplit(path.removeprefix(urlsplit(configuration.host).path))
    query = {name: tuple(values) for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    request = HttpRequest("GET", parts.path, query)
    return client.transport.websocket(request, _PROTOCOLS)


# There is no other place at which to give it a connection.
ws_client.create_websocket = _websocket


def _refuse_streams(path: str, query: Mapping[str, str]) -> None:
    if _is_set(query, "watch"):
        raise _NotSupported(
            "the official client does not watch over this connection",
            hint="declare the kind as a source of a controller: its cache is a watch that is shared and resumed",
        )
    at = parse(path)
    if at is not None and at.plural == "pods" and at.subresource in _STREAMING:
        raise _NotSupported(
            f"pods/{at.subresource} is no plain request",
            hint="call it through `kubernetes.stream.stream`, or `portforward`",
        )


def _seconds(timeout: Any) -> float:
    """Return the seconds of a `urllib3.Timeout`."""
    for name in ("total", "read_timeout"):
        value = getattr(timeout, name, None)
        if isinstance(value, int | float):
            return float(value)
    return DEFAULT_TIMEOUT
