"""Convert targets to requests and responses to objects, for every verb of the client."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ctrlhost.cache import plain
from ctrlhost.client.kind_schemas import KindSchemas
from ctrlhost.client.owner import check_scope
from ctrlhost.client.resources import Resource, Resources
from ctrlhost.client.retry import retried
from ctrlhost.client.target import Target, Write, WriteVerb, parent_of, target_of
from ctrlhost.duration import in_seconds
from ctrlhost.transport.interface import DEFAULT_TIMEOUT, HttpRequest
from ctrlhost.transport.responses import decode_object, names_no_object
from ctrlhost.transport.steps import Steps, verb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.client.served_kinds import ServedKind
    from ctrlhost.duration import DurationLike
    from ctrlhost.transport.interface import Query, Response, Transport

OnWrite = Callable[[Write], None]

_METHODS = {"create": "POST", "replace": "PUT", "apply": "PATCH", "patch": "PATCH", "delete": "DELETE"}


class Requests:
    """The requests to one server, with the default namespace and the field manager of writes."""

    def _set_up(self, transport: Transport, namespace: str) -> None:
        self.transport = transport
        #: The one that asks the server for its kinds.
        self.discovery = transport
        self.namespace = namespace
        self.field_manager = "ctrlhost"
        self.resources = Resources(transport)
        self.schemas = KindSchemas()
        self._on_write: OnWrite | None = None
        #: The official client over this one, once it was asked for.
        self._official: object = None

    @verb
    def resource(self, api_version: str, kind: str, *, timeout: DurationLike | None = None) -> Steps[Resource]:
        """Return plural, scope and verbs of a kind; NotFound if the server does not serve it."""
        return (yield from self._resource(api_version, kind, timeout))

    @verb
    def kinds(self, *, timeout: DurationLike | None = None) -> Steps[list[ServedKind]]:
        """Return the kinds that the server serves, in all versions, the preferred one of each group first.

        TransportError for a server before Kubernetes 1.27.
        """
        # Imported late: few ask for it.
        from ctrlhost.client.served_kinds import served_kinds

        return (yield from served_kinds(self.discovery, None if timeout is None else in_seconds(timeout)))

    def _resource(self, api_version: str, kind: str, timeout: DurationLike | None) -> Steps[Resource]:
        return self.resources.find(api_version, kind, timeout=timeout, transport=self.discovery)

    def _target(
        self,
        api_version: str,
        kind: str,
        namespace: str | None,
        name: str,
        subresource: str | None = None,
        *,
        timeout: DurationLike | None,
    ) -> Steps[Target]:
        if not isinstance(name, str):
            # None would be the collection: a get would list, and a delete would delete all objects.
            raise TypeError(f"the name of a {kind} must be a string, got {name!r}")
        resource = yield from self._resource(api_version, kind, timeout)
        return Target(resource, (namespace or self.namespace) if resource.namespaced else "", name, subresource)

    def _resolve_target(
        self,
        content: dict[str, Any],
        subresource: str | None,
        timeout: DurationLike | None,
        *,
        generated: bool = False,
        owner: Mapping[str, Any] | None = None,
    ) -> Steps[Target]:
        resource = yield from self._resource(*parent_of(content, subresource), timeout)
        if owner is not None:
            check_scope(content, owner, namespaced=resource.namespaced)
        return target_of(content, resource, self.namespace, subresource, generated=generated)

    def _write(
        self,
        verb: WriteVerb,
        target: Target,
        query: Query | None,
        content: Any,
        *,
        content_type: str = "application/json",
        timeout: DurationLike | None,
    ) -> Steps[dict[str, Any]]:
        answer, _ = yield from self._execute(verb, target, query, content, content_type=content_type, timeout=timeout)
        return answer

    def _execute(
        self,
        verb: WriteVerb,
        target: Target,
        query: Query | None,
        content: Any,
        *,
        content_type: str,
        timeout: DurationLike | None,
    ) -> Steps[tuple[dict[str, Any], bytes]]:
        """Write; return the response decoded, and as the server sent it."""
        method, collection = _METHODS[verb], verb == "create" and target.subresource is None
        target, path, response = yield from self._send(
            method, target, query, content, content_type=content_type, collection=collection, timeout=timeout
        )
        written = decode_object(response, f"{method} {path}")
        if self._on_write is not None:
            manager = str((query or {}).get("fieldManager") or self.field_manager)
            self._on_write(Write(verb, target, written, manager))
        return written, response.body

    def _call(
        self,
        method: str,
        target: Target,
        query: Query | None = None,
        content: Any = None,
        *,
        timeout: DurationLike | None = None,
    ) -> Steps[dict[str, Any]]:
        _, path, response = yield from self._send(
            method, target, query, content, content_type="application/json", collection=False, timeout=timeout
        )
        return decode_object(response, f"{method} {path}")

    def _send(
        self,
        method: str,
        target: Target,
        query: Query | None,
        content: Any,
        *,
        content_type: str,
        collection: bool,
        timeout: DurationLike | None,
    ) -> Steps[tuple[Target, str, Response]]:
        """Send a request; once more if the server serves the kind elsewhere by now. Return where it was sent last."""
        send = partial(self._request, method, query=query, content=content, content_type=content_type, timeout=timeout)
        path = target.path(collection=collection)
        response = yield from send(path)
        if names_no_object(response) and (moved := (yield from self._moved(method, target, timeout))) is not None:
            target, path = moved, moved.path(collection=collection)
            response = yield from send(path)
        return target, path, response

    def refreshed(self, resource: Resource, timeout: DurationLike | None = None) -> Steps[Resource]:
        """Return a custom kind as the server serves it by now; UnknownKind if it no longer does."""
        if not self.resources.forget(resource.api_version, resource.kind):
            return resource
        return (yield from self._resource(resource.api_version, resource.kind, timeout))

    def _moved(self, method: str, target: Target, timeout: DurationLike | None) -> Steps[Target | None]:
        """Ask the server for a custom kind again, whose CRD may have been replaced by another one.

        Return the target if scope or plural have changed; UnknownKind if the server no longer serves the kind.
        """
        former = target.resource
        resource = yield from self.refreshed(former, timeout)
        if (resource.plural, resource.namespaced) == (former.plural, former.namespaced):
            return None
        # A list without a namespace is one of all namespaces.
        default = "" if method == "GET" and target.name is None else self.namespace
        namespace = (target.namespace or default) if resource.namespaced else ""
        return replace(target, resource=resource, namespace=namespace)

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None,
        content: Any,
        content_type: str,
        timeout: DurationLike | None,
    ) -> Steps[Response]:
        body = None if content is None else msgspec.json.encode(content, enc_hook=plain)
        headers = {} if body is None else {"Content-Type": content_type}
        limit = DEFAULT_TIMEOUT if timeout is None else in_seconds(timeout)
        return retried(self.transport, HttpRequest(method, path, query, body, headers, limit))
