"""Routes as `networking.k8s.io/v1` Ingress objects for ingress-nginx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.lease import LeaseID, lease_from_labels
from ctrlhost_hostname.routes import Connection, Directive, as_list, as_mapping, owned_metadata, plain, seconds

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
    write_verbs: tuple[str, ...] = ("create", "update", "deletecollection")

    def build(self, directive: Directive) -> dict[str, Any]:
        """Give the Ingress of a hostname."""
        backend = {"service": {"name": directive.service_name, "port": {"number": directive.service_port}}}
        path = {"path": "/", "pathType": "Prefix", "backend": backend}
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {
                "name": directive.hostname,
                "namespace": directive.lease.namespace,
                "labels": dict(directive.lease.labels),
                "annotations": ingress_annotations(directive.options),
            },
            "spec": {
                "ingressClassName": INGRESS_CLASS,
                "rules": [{"host": directive.hostname, "http": {"paths": [path]}}],
            },
        }

    def differs(self, live: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
        """Compare labels, annotations, class and rules; TLS and a default backend must be absent."""
        for field in ("labels", "annotations"):
            wanted = desired["metadata"][field]
            if owned_metadata(live, field, list(wanted)) != wanted:
                return True
        spec = as_mapping(live.get("spec"))
        return (
            spec.get("ingressClassName") != INGRESS_CLASS
            or plain(spec.get("rules")) != desired["spec"]["rules"]
            or bool(spec.get("tls"))
            or bool(spec.get("defaultBackend"))
        )

    def connection(self, live: Mapping[str, Any]) -> Connection:
        """Read an Ingress with exactly one rule and one path whose backend is a Service; a named port reads as 0."""
        lease = lease_from_labels(as_mapping(as_mapping(live.get("metadata")).get("labels")))
        rules = as_list(as_mapping(live.get("spec")).get("rules"))
        if len(rules) != 1:
            raise InvalidConnectionError(f"invalid number of rules {len(rules)}")
        http = as_mapping(rules[0]).get("http")
        if http is None:
            raise InvalidConnectionError("rule has no http")
        paths = as_list(as_mapping(http).get("paths"))
        if len(paths) != 1:
            raise InvalidConnectionError(f"invalid number of paths {len(paths)}")
        service = as_mapping(as_mapping(paths[0]).get("backend")).get("service")
        if service is None:
            raise InvalidConnectionError("backend has no service")
        return Connection(
            hostname=as_mapping(rules[0]).get("host") or "",
            lease=lease,
            service_name=as_mapping(service).get("name") or "",
            service_port=as_mapping(as_mapping(service).get("port")).get("number") or 0,
        )

    def hosts(self, live: Mapping[str, Any]) -> list[str]:
        """Give the host of every rule that has one."""
        rules = as_list(as_mapping(live.get("spec")).get("rules"))
        return [host for rule in rules if (host := as_mapping(rule).get("host"))]

    def is_plain(self, live: Mapping[str, Any], hostname: str) -> bool:
        """Ask for our class and a single rule for the very hostname."""
        spec = as_mapping(live.get("spec"))
        rules = as_list(spec.get("rules"))
        return spec.get("ingressClassName") == INGRESS_CLASS and len(rules) == 1 and self.hosts(live) == [hostname]

    def remove(self, client: ctrlhost.Client, lease: LeaseID, live: ctrlhost.Object) -> None:
        """Delete by name and lease labels in one call, so that an Ingress that another lease took over stays."""
        client.delete_collection(
            self.api_version,
            self.kind,
            lease.namespace,
            label_selector=lease.removal_selector,
            field_selector=f"metadata.name={live.name}",
        )


def ingress_annotations(options: HTTPOptions) -> dict[str, str]:
    """Give the six annotations that ingress-nginx reads; `proxy-next-upstream` is there even when it is empty."""
    cases = " ".join(f"http_{case}" if case[0] in "12345" else case for case in options.next_cases if case)
    return {
        f"{_PREFIX}proxy-body-size": str(options.max_body_size),
        f"{_PREFIX}proxy-next-upstream": cases,
        f"{_PREFIX}proxy-next-upstream-timeout": str(seconds(options.next_timeout)),
        f"{_PREFIX}proxy-next-upstream-tries": str(options.next_tries),
        f"{_PREFIX}proxy-read-timeout": str(seconds(options.read_timeout)),
        f"{_PREFIX}proxy-send-timeout": str(seconds(options.send_timeout)),
    }
