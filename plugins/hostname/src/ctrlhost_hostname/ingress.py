"""Routes as `networking.k8s.io/v1` Ingress objects for ingress-nginx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.lease import LeaseID, lease_from_labels
from ctrlhost_hostname.routes import Connection, Directive, any_differs, new_route, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ctrlhost
    from ctrlhost_hostname.manifest import HTTPOptions

INGRESS_CLASS = "akash-ingress-class"
_PREFIX = "nginx.ingress.kubernetes.io/"


class IngressRoutes:
    """One Ingress per hostname, named after it, in the lease's namespace."""

    api_version = "networking.k8s.io/v1"
    kind = "Ingress"
    group = "networking.k8s.io"
    resource = "ingresses"
    get_action = "ingresses-get"
    create_action = "networking-ingresses-create"
    update_action = "networking-ingresses-update"
    remove_action = "networking-ingresses-deletecollection"
    write_verbs = ("create", "update", "deletecollection")

    def build(self, directive: Directive) -> dict[str, Any]:
        """Return the Ingress of a hostname."""
        backend = {"service": {"name": directive.service_name, "port": {"number": directive.service_port}}}
        path = {"path": "/", "pathType": "Prefix", "backend": backend}
        spec = {
            "ingressClassName": INGRESS_CLASS,
            "rules": [{"host": directive.hostname, "http": {"paths": [path]}}],
        }
        return new_route(self.api_version, self.kind, directive, ingress_annotations(directive.options), spec)

    def differs(self, live: ctrlhost.Object, desired: Mapping[str, Any]) -> bool:
        """Compare labels, annotations, class and rules; TLS and a default backend must be absent."""
        metadata = desired["metadata"]
        return (
            any_differs(live.labels, metadata["labels"], metadata["labels"])
            or any_differs(live.annotations, metadata["annotations"], metadata["annotations"])
            or live.get_path("spec", "ingressClassName") != INGRESS_CLASS
            or live.get_path("spec", "rules") != desired["spec"]["rules"]
            or bool(live.get_path("spec", "tls"))
            or bool(live.get_path("spec", "defaultBackend"))
        )

    def connection(self, live: ctrlhost.Object) -> Connection:
        """Read an Ingress with exactly one rule and one path whose backend is a Service; a named port reads as 0."""
        lease = lease_from_labels(live.labels)
        rules = live.get_path("spec", "rules", default=())
        if len(rules) != 1:
            raise InvalidConnectionError(f"invalid number of rules {len(rules)}")
        if live.get_path("spec", "rules", 0, "http") is None:
            raise InvalidConnectionError("rule has no http")
        paths = live.get_path("spec", "rules", 0, "http", "paths", default=())
        if len(paths) != 1:
            raise InvalidConnectionError(f"invalid number of paths {len(paths)}")
        service = ("spec", "rules", 0, "http", "paths", 0, "backend", "service")
        if live.get_path(*service) is None:
            raise InvalidConnectionError("backend has no service")
        return Connection(
            hostname=live.get_path("spec", "rules", 0, "host", default=""),
            lease=lease,
            service_name=live.get_path(*service, "name", default=""),
            service_port=live.get_path(*service, "port", "number", default=0),
        )

    def hosts(self, live: ctrlhost.Object) -> list[str]:
        """Return the host of every rule that has one."""
        return [host for rule in live.get_path("spec", "rules", default=()) if (host := rule.get("host"))]

    def is_plain(self, live: ctrlhost.Object, hostname: str) -> bool:
        """Return whether the Ingress has our class and a single rule, for this hostname."""
        ours = live.get_path("spec", "ingressClassName") == INGRESS_CLASS
        return ours and len(live.get_path("spec", "rules", default=())) == 1 and self.hosts(live) == [hostname]

    def remove(self, client: ctrlhost.Client, lease: LeaseID, live: ctrlhost.Object) -> None:
        """Delete by name and lease labels in one call: an Ingress that now belongs to another lease is kept."""
        client.delete_collection(
            self.api_version,
            self.kind,
            lease.namespace,
            label_selector=lease.removal_selector,
            field_selector=f"metadata.name={live.name}",
        )


def ingress_annotations(options: HTTPOptions) -> dict[str, str]:
    """Return the six annotations that ingress-nginx reads; `proxy-next-upstream` is present even when it is empty."""
    return {
        f"{_PREFIX}proxy-body-size": str(options.max_body_size),
        f"{_PREFIX}proxy-next-upstream": options.next_upstream,
        f"{_PREFIX}proxy-next-upstream-timeout": str(seconds(options.next_timeout)),
        f"{_PREFIX}proxy-next-upstream-tries": str(options.next_tries),
        f"{_PREFIX}proxy-read-timeout": str(seconds(options.read_timeout)),
        f"{_PREFIX}proxy-send-timeout": str(seconds(options.send_timeout)),
    }
