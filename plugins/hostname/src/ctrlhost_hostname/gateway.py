"""Routes as `gateway.networking.k8s.io/v1` HTTPRoute objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.lease import lease_from_labels
from ctrlhost_hostname.routes import CONFIRM, Connection, Routes, seconds

if TYPE_CHECKING:
    import ctrlhost
    from ctrlhost_hostname.claims import Claim
    from ctrlhost_hostname.manifest import HTTPOptions

#: The implementations whose annotations are known.
PROVIDERS = ("nginx",)
_GROUP = "gateway.networking.k8s.io"
_PREFIX = "nginx.org/"
_KEYS = (
    *("client-max-body-size", "proxy-buffer-size", "proxy-next-upstream", "proxy-next-upstream-timeout"),
    *("proxy-next-upstream-tries", "proxy-read-timeout", "proxy-send-timeout"),
)


class GatewayRoutes(Routes):
    """HTTPRoutes with one rule, attached to an existing Gateway; they set no timeouts.

    The annotations are for NGINX Gateway Fabric; whether it acts on them depends on its version.
    """

    kind = ("gateway.networking.k8s.io/v1", "HTTPRoute")
    resource = "httproutes"
    action = "gateway-httproutes"
    own_annotations = frozenset({CONFIRM, *(f"{_PREFIX}{key}" for key in _KEYS)})

    def __init__(self, gateway_name: str, gateway_namespace: str, proxy_buffer_size: str) -> None:
        """Set the Gateway that every route is attached to, and a buffer size; an empty one is left out."""
        self._parent = {"group": _GROUP, "kind": "Gateway", "namespace": gateway_namespace, "name": gateway_name}
        self._proxy_buffer_size = proxy_buffer_size

    def annotations(self, options: HTTPOptions) -> dict[str, str]:
        """Return the annotations in the order of their keys; unlimited and empty values are absent."""
        values = (
            str(options.max_body_size),
            self._proxy_buffer_size,
            options.next_upstream,
            f"{seconds(options.next_timeout)}s" if options.next_timeout else "",
            str(options.next_tries),
            str(seconds(options.read_timeout)),
            str(seconds(options.send_timeout)),
        )
        return {f"{_PREFIX}{key}": value for key, value in zip(_KEYS, values, strict=True) if value}

    def spec(self, claim: Claim) -> dict[str, Any]:
        """Return the parent, the hostname and the rule."""
        defaults = {"group": "", "kind": "Service", "weight": 1}
        backend = {**defaults, "name": claim.service_name, "port": claim.external_port}
        rule = {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": [backend]}
        return {"parentRefs": [dict(self._parent)], "hostnames": [claim.hostname], "rules": [rule]}

    def hosts(self, live: ctrlhost.Object) -> list[str]:
        """Return the hostnames of the route."""
        return list(live.get_path("spec", "hostnames", default=()))

    def connection(self, live: ctrlhost.Object) -> tuple[str, Connection]:
        """Read the first hostname, rule and backend of an HTTPRoute."""
        lease, hosts = lease_from_labels(live.labels), self.hosts(live)
        if not hosts:
            raise InvalidConnectionError("no hostnames specified")
        if not live.get_path("spec", "rules"):
            raise InvalidConnectionError("no rules specified")
        backend = live.get_path("spec", "rules", 0, "backendRefs", 0)
        if backend is None:
            raise InvalidConnectionError("no backend refs")
        if backend.get("port") is None:
            raise InvalidConnectionError("backend ref has no port")
        return hosts[0], Connection(lease, backend.get("name", ""), backend["port"])
