"""Routes as `networking.k8s.io/v1` Ingress objects for ingress-nginx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_hostname.errors import InvalidConnectionError
from ctrlhost_hostname.lease import lease_from_labels
from ctrlhost_hostname.routes import Connection, Routes, seconds

if TYPE_CHECKING:
    import ctrlhost
    from ctrlhost_hostname.claims import Claim
    from ctrlhost_hostname.manifest import HTTPOptions

_PREFIX = "nginx.ingress.kubernetes.io/"


class IngressRoutes(Routes):
    """Ingress objects with one rule and one path."""

    kind = ("networking.k8s.io/v1", "Ingress")
    resource = "ingresses"
    action = "networking-ingresses"
    ingress_class = "akash-ingress-class"

    def annotations(self, options: HTTPOptions) -> dict[str, str]:
        """Return the annotations that ingress-nginx reads; `proxy-next-upstream` is present even when it is empty."""
        return {
            f"{_PREFIX}proxy-body-size": str(options.max_body_size),
            f"{_PREFIX}proxy-next-upstream": options.next_upstream,
            f"{_PREFIX}proxy-next-upstream-timeout": str(seconds(options.next_timeout)),
            f"{_PREFIX}proxy-next-upstream-tries": str(options.next_tries),
            f"{_PREFIX}proxy-read-timeout": str(seconds(options.read_timeout)),
            f"{_PREFIX}proxy-send-timeout": str(seconds(options.send_timeout)),
        }

    def spec(self, claim: Claim) -> dict[str, Any]:
        """Return the class and the rule; TLS and a default backend are absent."""
        backend = {"service": {"name": claim.service_name, "port": {"number": claim.external_port}}}
        path = {"path": "/", "pathType": "Prefix", "backend": backend}
        return {"ingressClassName": self.ingress_class, "rules": [{"host": claim.hostname, "http": {"paths": [path]}}]}

    def hosts(self, live: ctrlhost.Object) -> list[str]:
        """Return the host of every rule that has one."""
        return [host for rule in live.get_path("spec", "rules", default=()) if (host := rule.get("host"))]

    def connection(self, live: ctrlhost.Object) -> tuple[str, Connection]:
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
        service = live.get_path("spec", "rules", 0, "http", "paths", 0, "backend", "service")
        if service is None:
            raise InvalidConnectionError("backend has no service")
        port = (service.get("port") or {}).get("number", 0)
        return rules[0].get("host", ""), Connection(lease, service.get("name", ""), port)
