"""Routes as `gateway.networking.k8s.io/v1` HTTPRoute objects."""

from __future__ import annotations

import http
from typing import TYPE_CHECKING, Any, Protocol

import ctrlhost
from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.lease import LeaseID, lease_from_labels
from ctrlhost_hostname.routes import Connection, Directive, as_list, as_mapping, owned_metadata, plain, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost_hostname.manifest import HTTPOptions

_GROUP = "gateway.networking.k8s.io"
_BACKEND_DEFAULTS = {"group": "", "kind": "Service", "weight": 1}
_PARENT_DEFAULTS = {"group": _GROUP, "kind": "Gateway"}
# The codes that are registered; Python 3.13 knows the same ones under other names.
_STATUS_CODES = frozenset(status.value for status in http.HTTPStatus)


class GatewayProvider(Protocol):
    """How one implementation of the Gateway API is told the HTTP options."""

    name: str
    keys: tuple[str, ...]
    """Every annotation key that is the provider's, those that are absent at the moment too."""

    def annotations(self, options: HTTPOptions) -> dict[str, str]:
        """Give the annotations of a route."""
        ...


class NginxProvider:
    """NGINX Gateway Fabric, through annotations; whether it acts on them depends on its version."""

    name = "nginx"
    _prefix = "nginx.org/"
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
        """Keep the buffer size, which is one for all routes; empty leaves the annotation out."""
        self._proxy_buffer_size = proxy_buffer_size

    def annotations(self, options: HTTPOptions) -> dict[str, str]:
        """Give the annotations in the order of their keys; what is unlimited or empty is absent."""
        cases = " ".join(_nginx_case(case) for case in options.next_cases if case)
        next_timeout = f"{seconds(options.next_timeout)}s" if options.next_timeout else ""
        values = {
            "client-max-body-size": str(options.max_body_size),
            "proxy-buffer-size": self._proxy_buffer_size,
            "proxy-next-upstream": cases,
            "proxy-next-upstream-timeout": next_timeout,
            "proxy-next-upstream-tries": str(options.next_tries),
            "proxy-read-timeout": str(seconds(options.read_timeout)),
            "proxy-send-timeout": str(seconds(options.send_timeout)),
        }
        return {f"{self._prefix}{key}": value for key, value in values.items() if value}


def _nginx_case(case: str) -> str:
    """Prefix a case that is a registered status code."""
    return f"http_{case}" if case.isascii() and case.isdigit() and int(case) in _STATUS_CODES else case


PROVIDERS = {"nginx": NginxProvider}


class GatewayRoutes:
    """One HTTPRoute per hostname, named after it, in the lease's namespace, on a Gateway that somebody else made."""

    api_version = "gateway.networking.k8s.io/v1"
    kind = "HTTPRoute"
    group = _GROUP
    resource = "httproutes"
    get_action = "gateway-httproutes-get"
    create_action = "gateway-httproutes-create"
    update_action = "gateway-httproutes-update"
    remove_action = "gateway-httproutes-delete"
    write_verbs: tuple[str, ...] = ("create", "update", "delete")

    def __init__(self, gateway_name: str, gateway_namespace: str, provider: GatewayProvider) -> None:
        """Name the Gateway that every route hangs on."""
        self._parent = {**_PARENT_DEFAULTS, "namespace": gateway_namespace, "name": gateway_name}
        self._provider = provider

    def build(self, directive: Directive) -> dict[str, Any]:
        """Give the HTTPRoute of a hostname; it sets no timeouts."""
        match = {"path": {"type": "PathPrefix", "value": "/"}}
        backend = {"name": directive.service_name, "port": directive.service_port}
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {
                "name": directive.hostname,
                "namespace": directive.lease.namespace,
                "labels": dict(directive.lease.labels),
                "annotations": self._provider.annotations(directive.options),
            },
            "spec": {
                "parentRefs": [dict(self._parent)],
                "hostnames": [directive.hostname],
                "rules": [{"matches": [match], "backendRefs": [backend]}],
            },
        }

    def differs(self, live: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
        """Compare labels, the provider's annotations (absent ones too) and the spec less what the server fills in."""
        labels = desired["metadata"]["labels"]
        if owned_metadata(live, "labels", list(labels)) != labels:
            return True
        if owned_metadata(live, "annotations", self._provider.keys) != desired["metadata"]["annotations"]:
            return True
        spec, wanted = as_mapping(live.get("spec")), desired["spec"]
        parents = [{**_PARENT_DEFAULTS, **plain(as_mapping(parent))} for parent in as_list(spec.get("parentRefs"))]
        rules = [_without_defaults(as_mapping(rule)) for rule in as_list(spec.get("rules"))]
        live_spec = {"parentRefs": parents, "hostnames": as_list(spec.get("hostnames")), "rules": rules}
        return bool(live_spec != wanted)

    def connection(self, live: Mapping[str, Any]) -> Connection:
        """Read the first hostname, rule and backend of an HTTPRoute."""
        lease = lease_from_labels(as_mapping(as_mapping(live.get("metadata")).get("labels")))
        spec = as_mapping(live.get("spec"))
        hostnames = as_list(spec.get("hostnames"))
        if not hostnames:
            raise InvalidConnectionError("no hostnames specified")
        rules = as_list(spec.get("rules"))
        if not rules:
            raise InvalidConnectionError("no rules specified")
        backends = as_list(as_mapping(rules[0]).get("backendRefs"))
        if not backends:
            raise InvalidConnectionError("no backend refs")
        backend = as_mapping(backends[0])
        if backend.get("port") is None:
            raise InvalidConnectionError("backend ref has no port")
        return Connection(hostnames[0], lease, backend.get("name") or "", backend["port"])

    def hosts(self, live: Mapping[str, Any]) -> list[str]:
        """Give the hostnames of the route."""
        return [host for host in as_list(as_mapping(live.get("spec")).get("hostnames")) if isinstance(host, str)]

    def is_plain(self, live: Mapping[str, Any], hostname: str) -> bool:
        """Ask for a single rule for the very hostname."""
        return len(as_list(as_mapping(live.get("spec")).get("rules"))) == 1 and self.hosts(live) == [hostname]

    def remove(self, client: ctrlhost.Client, lease: LeaseID, live: ctrlhost.Object) -> None:
        """Delete the very object whose labels were read: a route that somebody put there since has another uid."""
        try:
            client.delete(self.api_version, self.kind, live.name, lease.namespace, preconditions={"uid": live.uid})
        except ctrlhost.NotFound:
            return


def _without_defaults(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Drop what the server adds to a rule's backends."""
    copy: dict[str, Any] = plain(rule)
    for backend in copy.get("backendRefs") or []:
        for key, value in _BACKEND_DEFAULTS.items():
            if backend.get(key) == value:
                del backend[key]
    return copy
