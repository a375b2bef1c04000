"""The client: reads and writes of single objects, as plain dicts."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ctrlhost.client.pod_logs import log_lines
from ctrlhost.client.requests import OnWrite, Requests
from ctrlhost.client.resources import Resource
from ctrlhost.client.target import Target, content_of, delete_options
from ctrlhost.duration import in_seconds
from ctrlhost.errors import ConfigError, NotFound, UnknownKind
from ctrlhost.kubeconfig.connection import Connection, from_configuration, from_url
from ctrlhost.kubeconfig.load import from_files, load_connection
from ctrlhost.transport.interface import CONNECT_TIMEOUT, DEFAULT_TIMEOUT, HttpRequest
from ctrlhost.transport.native import NativeTransport
from ctrlhost.transport.steps import Steps, carry_out, may_block, steps_of, verb

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kubernetes.client import ApiClient

    from ctrlhost.client.pod_exec import ExecResult
    from ctrlhost.client.port_forward import PortForward
    from ctrlhost.duration import DurationLike
    from ctrlhost.transport.interface import Query, Transport
    from ctrlhost.transport.metrics import ClientMetrics

PatchType = Literal["merge", "json", "strategic"]
Propagation = Literal["Foreground", "Background", "Orphan"]

_PAGE = 500
_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY_TYPE = "application/apply-patch+yaml"


class Client(Requests):
    """Reads and writes objects of one API server. Safe to use from any thread.

    Every call takes `timeout`, a duration such as `"5s"` or a number of seconds (default: 30), and raises ApiError if
    the server rejects it, TransportError if there is no usable response. Every write returns the object as the server
    now has it. A call for a namespaced kind without a namespace uses that of the kubeconfig's context; lists read all
    namespaces.
    """

    def __init__(self, url: str, token: str | None = None, ca: str | None = None, verify: bool = True) -> None:
        """Connect to the server at `url`; `ca` is PEM or the path of a PEM file. ConfigError if one is unusable."""
        connection = from_url(url, token, ca, verify)
        connection.check()
        self._set_up(NativeTransport(connection), connection.namespace)

    @classmethod
    def load(
        cls,
        kubeconfig: str | os.PathLike[str] | None = None,
        context: str | None = None,
        *,
        connect_timeout: DurationLike = CONNECT_TIMEOUT,
    ) -> Client:
        """Connect to the cluster of `kubeconfig`, else $KUBECONFIG, the pod's service account or ~/.kube/config.

        A new connection may take `connect_timeout`, a duration such as `"5s"` or a number of seconds.

        Logs the source; ConfigError names the file and the problem.
        """
        limit = in_seconds(connect_timeout)
        return cls._connected(load_connection(kubeconfig, context), connect_timeout=limit)

    @classmethod
    def from_configuration(cls, configuration: Any) -> Client:
        """Connect by a loaded `kubernetes.client.Configuration`, with its hook that refreshes tokens."""
        connection = from_configuration(configuration)
        connection.check()
        return cls._connected(connection)

    @classmethod
    def of_account(
        cls, kubeconfig: str, found_by: str, metrics: ClientMetrics | None, connect_timeout: float
    ) -> Client:
        """Connect to the cluster of a kubeconfig that the setting `found_by` names, and count in `metrics`.

        ConfigError names the setting, the file and the problem.
        """
        connection = from_files([Path(kubeconfig).expanduser()], None, found_by)
        connection.check()
        return cls._connected(connection, metrics=metrics, connect_timeout=connect_timeout)

    @classmethod
    def over(cls, transport: Transport, *, namespace: str = "default") -> Client:
        """Return a client over another transport, such as one that injects faults."""
        client = cls.__new__(cls)
        client._set_up(transport, namespace)  # noqa: SLF001 - the same class
        return client

    @classmethod
    def _connected(
        cls, connection: Connection, *, metrics: ClientMetrics | None = None, connect_timeout: float = CONNECT_TIMEOUT
    ) -> Client:
        transport = NativeTransport(connection, metrics=metrics, connect_timeout=connect_timeout)
        return cls.over(transport, namespace=connection.namespace)

    def derive(
        self,
        *,
        field_manager: str | None = None,
        on_write: OnWrite | None = None,
        transport: Transport | None = None,
        discovery: Transport | None = None,
    ) -> Client:
        """Return a client with this one's connections and known kinds, but another field manager.

        `on_write` is called on the writing thread after each successful write, before the write returns; not for
        `delete_collection`, whose response names no object. `transport` sends the requests in place of this client's;
        `discovery` those for the kinds that the server serves, by default the same.
        """
        client = copy.copy(self)
        client.field_manager = field_manager or self.field_manager
        client._on_write = on_write or self._on_write  # noqa: SLF001 - the same class
        if transport is not None:
            client.transport, client.discovery = transport, discovery or transport
        return client

    def separate(self) -> Client:
        """Return a client with the same credentials and connections of its own, if the transport supports that.

        Its requests never wait for those of this client. Close it when done.
        """
        transport = self.transport.separate()
        return self if transport is self.transport else self.derive(transport=transport)

    def official(self) -> ApiClient:
        """Return an `ApiClient` of the official package `kubernetes` that sends through this client, always the same.

        Its requests have this client's credentials, limits, leadership, metrics and field manager, and later reads see
        its writes. Failures that the server answers are its own ApiException; TransportError, NotLeading and
        BlockingCall are raised as by this client. Followed logs and `kubernetes.stream` work; watches are
        NotImplementedError. The first call imports `kubernetes`; ConfigError if it is not installed.
        """
        try:
            from ctrlhost.client.official import official_client
        except ImportError as error:
            hint = "install it with `pip install kubernetes`"
            raise ConfigError(f"the official client cannot be imported: {error}", hint=hint) from error
        return official_client(self)

    @property
    def dry_run(self) -> bool:
        """Whether the server only tries writes, and what they would change is logged."""
        return self.transport.dry_run

    @property
    def metrics(self) -> ClientMetrics | None:
        """Requests and durations so far, a collector for prometheus-client; None for a transport without metrics."""
        return self.transport.metrics

    @verb
    def get(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        timeout: DurationLike | None = None,
    ) -> Steps[dict[str, Any]]:
        """Return one object; NotFound if it does not exist."""
        target = yield from self._target(api_version, kind, namespace, name, timeout=timeout)
        return (yield from self._call("GET", target, timeout=timeout))

    @verb
    def find(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        timeout: DurationLike | None = None,
    ) -> Steps[dict[str, Any] | None]:
        """Return one object, None if it does not exist; UnknownKind if the server does not serve its kind."""
        try:
            return (yield from steps_of(Client.get)(self, api_version, kind, name, namespace, timeout=timeout))
        except UnknownKind:
            raise
        except NotFound:
            return None

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = _PAGE,
        timeout: DurationLike | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Return the objects one by one, requested in pages; `timeout` applies to each page.

        Raises Expired if the server drops the snapshot between two pages, which takes minutes.
        """
        pages = self.list_pages(
            api_version,
            kind,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            page_size=page_size,
            timeout=timeout,
        )
        for page in pages:
            yield from page["items"]

    def list_pages(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = _PAGE,
        timeout: DurationLike | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Return the pages of the list as the server sends them, each item with its apiVersion and kind."""
        token: str | None = None
        while True:
            page = carry_out(
                self.page_steps(
                    api_version,
                    kind,
                    namespace,
                    token,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    page_size=page_size,
                    timeout=timeout,
                )
            )
            yield page
            token = (page.get("metadata") or {}).get("continue") or None
            if token is None:
                return

    def page_steps(
        self,
        api_version: str,
        kind: str,
        namespace: str | None,
        token: str | None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = _PAGE,
        timeout: DurationLike | None = None,
    ) -> Steps[dict[str, Any]]:
        """Request one page of `list_pages`, the first one without a `token`."""
        resource = yield from self._resource(api_version, kind, timeout)
        query: dict[str, str | int | bool | None] = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": page_size or None,
            "continue": token,
        }
        target = Target(resource, (namespace or "") if resource.namespaced else "")
        page = yield from self._call("GET", target, query, timeout=timeout)
        page["items"] = [{"apiVersion": api_version, "kind": kind, **item} for item in page.get("items") or ()]
        return page

    @verb
    def create(
        self,
        obj: Mapping[str, Any],
        owner: Mapping[str, Any] | None = None,
        *,
        subresource: str | None = None,
        timeout: DurationLike | None = None,
    ) -> Steps[dict[str, Any]]:
        """Create an object, with `owner` as its controller if given; AlreadyExists if the name is taken.

        Raises ValueError before the request if another object is the controller, also a former `owner` of the same name
        and another uid, and if `owner` is in another namespace or in one while the object is cluster-scoped.

        With `subresource`, post to that of the object named in it, such as an Eviction to a pod's `eviction`.
        """
        content = content_of(obj, owner)
        target = yield from self._resolve_target(
            content, subresource, timeout, generated=subresource is None, owner=owner
        )
        return (
            yield from self._write("create", target, {"fieldManager": self.field_manager}, content, timeout=timeout)
        )

    @verb
    def replace(
        self, obj: Mapping[str, Any], subresource: str | None = None, *, timeout: DurationLike | None = None
    ) -> Steps[dict[str, Any]]:
        """Replace an object; Conflict if its resourceVersion is set and not the server's."""
        content = content_of(obj)
        target = yield from self._resolve_target(content, subresource, timeout)
        return (
            yield from self._write("replace", target, {"fieldManager": self.field_manager}, content, timeout=timeout)
        )

    @verb
    def apply(
        self,
        obj: Mapping[str, Any],
        *,
        owner: Mapping[str, Any] | None = None,
        field_manager: str | None = None,
        force: bool = True,
        subresource: str | None = None,
        timeout: DurationLike | None = None,
    ) -> Steps[dict[str, Any]]:
        """Apply server-side: set the fields in `obj`, remove those applied before and now missing.

        `owner` is as for `create`.
        """
        content = content_of(obj, owner)
        target = yield from self._resolve_target(content, subresource, timeout, owner=owner)
        query: Query = {"fieldManager": field_manager or self.field_manager, "force": force}
        return (yield from self._write("apply", target, query, content, content_type=_APPLY_TYPE, timeout=timeout))

    @verb
    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None,
        patch: Any,
        *,
        type: PatchType = "merge",  # noqa: A002 - the API's own word
        subresource: str | None = None,
        timeout: DurationLike | None = None,
    ) -> Steps[dict[str, Any]]:
        """Patch an object by merge patch (RFC 7386), JSON patch (RFC 6902) or strategic merge (built-in kinds)."""
        if type not in _PATCH_TYPES:
            raise ValueError(f"invalid patch type {type!r}: must be one of {', '.join(_PATCH_TYPES)}")
        target = yield from self._target(api_version, kind, namespace, name, subresource, timeout=timeout)
        query = {"fieldManager": self.field_manager}
        return (yield from self._write("patch", target, query, patch, content_type=_PATCH_TYPES[type], timeout=timeout))

    @verb
    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation | None = None,
        preconditions: Mapping[str, str] | None = None,
        grace_period_seconds: int | None = None,
        timeout: DurationLike | None = None,
    ) -> Steps[dict[str, Any]]:
        """Delete an object; Conflict if it differs from the `uid` or `resourceVersion` in `preconditions`.

        Returns the object if finalizers or a grace period delay the deletion, else the server's `Status`.
        """
        target = yield from self._target(api_version, kind, namespace, name, timeout=timeout)
        options = delete_options(propagation, preconditions, grace_period_seconds)
        return (yield from self._write("delete", target, None, options, timeout=timeout))

    @verb
    def delete_collection(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        propagation: Propagation | None = None,
        timeout: DurationLike | None = None,
    ) -> Steps[dict[str, Any]]:
        """Delete all objects that the selectors match, in one namespace (default: the context's)."""
        resource = yield from self._resource(api_version, kind, timeout)
        target = Target(resource, (namespace or self.namespace) if resource.namespaced else "")
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        # Not reported to `on_write`: the response is a list, or a Status that names no object.
        return (
            yield from self._call("DELETE", target, query, delete_options(propagation, None, None), timeout=timeout)
        )

    def logs(
        self,
        name: str,
        namespace: str | None = None,
        *,
        container: str | None = None,
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        timeout: DurationLike | None = None,
    ) -> Iterator[str]:
        """Return the lines of a pod's log one by one, with `follow` also those to come until the container ends.

        `container` is needed for a pod of several; `previous` is the one before the last restart. `timeout` is for the
        first byte. Closing the iterator ends the request. Raises ApiError if the server refuses it, at the first line.
        """
        query: Query = {
            "container": container,
            "follow": follow or None,
            "previous": previous or None,
            "tailLines": tail_lines,
        }
        return log_lines(self.transport, self._to_pod(name, namespace, "log", query, timeout), follow=follow)

    def exec(
        self,
        name: str,
        command: Sequence[str],
        namespace: str | None = None,
        *,
        container: str | None = None,
        stdin: bytes | None = None,
        timeout: DurationLike | None = None,
    ) -> ExecResult:
        """Run a command in a container of a pod until it ends; return its output and its exit code, whatever that is.

        `container` is needed for a pod of several; `stdin` is all of the command's input, for which the server must be
        Kubernetes 1.30 or later. `timeout` is for the whole run, after which the command may go on. Blocks its thread.
        Raises ApiError if the server refuses it or if the command cannot be started, ConfigError without the package
        `websocket-client`, which `kubernetes` brings. Needs the verbs `get` and `create` on `pods/exec`.
        """
        may_block()
        try:
            from ctrlhost.client.pod_exec import run
        except ImportError as error:
            raise _no_websockets(error) from error

        query: Query = {
            "command": tuple(command),
            "container": container,
            "stdin": stdin is not None,
            "stdout": True,
            "stderr": True,
        }
        return run(self.transport, self._to_pod(name, namespace, "exec", query, timeout), stdin)

    def port_forward(
        self,
        name: str,
        port: int,
        namespace: str | None = None,
        *,
        local_port: int = 0,
        timeout: DurationLike | None = None,
    ) -> PortForward:
        """Forward connections to a port of 127.0.0.1 to one of a pod; close it, or use it as a context manager.

        Its `local_port` is a free one unless it is given. `timeout` is for each new connection to the pod; one that
        fails is logged. Callable from any thread. Raises ApiError if the server refuses it, OSError if the local port
        is in use, ConfigError as `exec`. Needs the verbs `get` and `create` on `pods/portforward`.
        """
        may_block()
        try:
            from ctrlhost.client.port_forward import PortForward
        except ImportError as error:
            raise _no_websockets(error) from error

        request = self._to_pod(name, namespace, "portforward", {"ports": port}, timeout)
        return PortForward(self.transport, request, local_port)

    def _to_pod(
        self, name: str, namespace: str | None, subresource: str, query: Query, timeout: DurationLike | None
    ) -> HttpRequest:
        pod = Resource("", "v1", "pods", "Pod", namespaced=True)
        path = pod.path(namespace or self.namespace, name, subresource)
        return HttpRequest("GET", path, query, timeout=DEFAULT_TIMEOUT if timeout is None else in_seconds(timeout))

    def add_crds(self, crds: Iterable[Mapping[str, Any]]) -> None:
        """Add the kinds of CustomResourceDefinitions, so that they need no discovery."""
        self.resources.add_crds(crds)

    def close(self) -> None:
        """Drop the idle connections; a later call opens new ones."""
        self.transport.close()


def _no_websockets(error: ImportError) -> ConfigError:
    hint = "install it with `pip install websocket-client`"
    return ConfigError(f"connections to pods need websocket-client: {error}", hint=hint)
