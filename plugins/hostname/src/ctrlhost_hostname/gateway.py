"""Routes as `gateway.networking.k8s.io/v1` HTTPRoute objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.lease import LeaseID, lease_from_labels
from ctrlhost_hostname.routes import Connection, Directive, any_differs, new_route, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost_hostname.manifest import HTTPOptions

_GROUP = "gateway.networking.k8s.io"
_BACKEND_DEFAULTS = {"group": "", "kind": "Service", "weight": 1}
_PARENT_DEFAULTS = {"group": _GROUP, "kind": "Gateway"}


class NginxProvider:
    """HTTP options as annotations for NGINX Gateway Fabric; whether it acts on them depends on its version."""

    _prefix = "nginx.org/"
    #: Every annotation key that the provider owns, including those that are absent at the moment.
    keys = tuple(
        f"nginx.org/{key}"
        for key in (
            "client-max-body-size",
            "proxy-buffer-size",
            "proxy-next-upstream",
            "proxy-next-upstream-timeout",
            "proxy-next-upstream-tries",
            "proxy-read-timeout",
            "proxy-send-timeout",
        )
    )

    def __init__(self, proxy_buffer_size: str) -> None:
        """Set the buffer size of all routes; an empty one leaves the annotation out."""
        self._proxy_buffer_size = proxy_buffer_size

    def annotations(self, options: HTTPOptions) -> dict[str, str]:
        """Return the annotations in the order of their keys; unlimited and empty values are absent."""
        next_timeout = f"{seconds(options.next_timeout)}s" if options.next_timeout else ""
        values = {
            "client-max-body-size": str(options.max_body_size),
            "proxy-buffer-size": self._proxy_buffer_size,
            "proxy-next-upstream": options.next_upstream,
            "proxy-next-upstream-timeout": next_timeout,
            "proxy-next-upstream-tries": str(options.next_tries),
            "proxy-read-timeout": str(seconds(options.read_timeout)),
            "proxy-send-timeout": str(seconds(options.send_timeout)),
        }
        return {f"{self._prefix}{key}": value for key, value in values.items() if value}


PROVIDERS = {"nginx": NginxProvider}


class GatewayRoutes:
    """One HTTPRoute per hostname, named after it, in the lease's namespace, attached to an existing Gateway."""

    api_version = "gateway.networking.k8s.io/v1"
    kind = "HTTPRoute"
    group = _GROUP
    resource = "httproutes"
    get_action = "gateway-httproutes-get"
    create_action = "gateway-httproutes-create"
    update_action = "gateway-httproutes-update"
    remove_action = "gateway-httproutes-delete"
    write_verbs = ("create", "update", "delete")

    def __init__(self, gateway_name: str, gateway_namespace: str, provider: NginxProvider) -> None:
        """Set the Gateway that every route is attached to."""
        self._parent = {**_PARENT_DEFAULTS, "namespace": gateway_namespace, "name": gateway_name}
        self._provider = provider

    def build(self, directive: Directive) -> dict[str, Any]:
        """Return the HTTPRoute of a hostname; it sets no timeouts."""
        match = {"path": {"type": "PathPrefix", "value": "/"}}
        backend = {"name": directive.service_name, "port": directive.service_port}
        spec = {
            "parentRefs": [dict(self._parent)],
            "hostnames": [directive.hostname],
            "rules": [{"matches": [match], "backendRefs": [backend]}],
        }
        annotations = self._provider.annotations(directive.options)
        return new_route(self.api_version, self.kind, directive, annotations, spec)

    def differs(self, live: ctrlhost.Object, desired: Mapping[str, Any]) -> bool:
        """Compare labels, the provider's annotations (absent ones too), and the spec without the server's defaults."""
        metadata = desired["metadata"]
        parents = [{**_PARENT_DEFAULTS, **parent} for parent in live.get_path("spec", "parentRefs", default=())]
        rules = [_without_defaults(rule) for rule in live.get_path("spec", "rules", default=())]
        return (
            any_differs(live.labels, metadata["labels"], metadata["labels"])
            or any_differs(live.annotations, metadata["annotations"], self._provider.keys)
            or {"parentRefs": parents, "hostnames": self.hosts(live), "rules": rules} != desired["spec"]
        )

    def connection(self, live: ctrlhost.Object) -> Connection:
        """Read the first hostname, rule and backend of an HTTPRoute."""
        lease = lease_from_labels(live.labels)
        if not live.get_path("spec", "hostnames"):
            raise InvalidConnectionError("no hostnames specified")
        if not live.get_path("spec", "rules"):
            raise InvalidConnectionError("no rules specified")
        backend = ("spec", "rules", 0, "backendRefs", 0)
        if live.get_path(*backend) is None:
            raise InvalidConnectionError("no backend refs")
        port = live.get_path(*backend, "port")
        if port is None:
            raise InvalidConnectionError("backend ref has no port")
        return Connection(self.hosts(live)[0], lease, live.get_path(*backend, "name", default=""), port)

    def hosts(self, live: ctrlhost.Object) -> list[str]:
        """Return the hostnames of the route."""
        return list(live.get_path("spec", "hostnames", default=()))

    def is_plain(self, live: ctrlhost.Object, hostname: str) -> bool:
        """Return whether the route has a single rule, for this hostname."""
        return len(live.get_path("spec", "rules", default=())) == 1 and self.hosts(live) == [hostname]

    def remove(self, client: ctrlhost.Client, lease: LeaseID, live: ctrlhost.Object) -> None:
        """Delete the object whose labels were read; a newer route of the same name has another uid and is kept."""
        try:
            client.delete(self.api_version, self.kind, live.name, lease.namespace, preconditions={"uid": live.uid})
        except ctrlhost.NotFound:
            return


def _without_defaults(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a rule without the values that the server adds to its backends."""
    own: dict[str, Any] = ctrlhost.plain(rule)
    for backend in own.get("backendRefs") or []:
        for key, value in _BACKEND_DEFAULTS.items():
            if backend.get(key) == value:
                del backend[key]
    return own
