"""The rights that accounts got and used, from the audit log of a real kube-apiserver."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def account_rule(namespace: str) -> dict[str, Any]:
    """Return the audit rule for all requests of the ServiceAccounts of a namespace."""
    return {
        "level": "Metadata",
        "omitStages": ["RequestReceived"],
        "userGroups": [f"system:serviceaccounts:{namespace}"],
    }


def forbidden(audited: list[dict[str, Any]]) -> list[str]:
    """Return the requests that were not allowed."""
    refused = [
        event
        for event in audited
        if event["annotations"]["authorization.k8s.io/decision"] != "allow"
        or event["responseStatus"].get("code") == 403
    ]
    return sorted({f"{event['user']['username']}: {event['verb']} {event['requestURI']}" for event in refused})


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource; `namespace` is empty for all of them, and `name` for all objects."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""

    @property
    def short(self) -> tuple[str, str, str]:
        """Group, resource and verb."""
        return self.group, self.resource, self.verb

    @property
    def everywhere(self) -> Right:
        """The same right in all namespaces and for all objects."""
        return Right("", *self.short)

    def allows(self, request: Mapping[str, Any]) -> bool:
        """Return whether a request of the audit log uses this right."""
        target = request.get("objectRef") or {}
        resource = "/".join(filter(None, [target.get("resource", ""), target.get("subresource", "")]))
        # A list or watch with a selector for one name has no name in its path.
        names = {target.get("name", ""), *re.findall(r"fieldSelector=metadata\.name%3D([^&]+)", request["requestURI"])}
        return (
            (target.get("apiGroup", ""), resource, request["verb"]) == self.short
            and self.namespace in ("", target.get("namespace", ""))
            and (not self.name or self.name in names)
        )


def granted(manifests: Iterable[Mapping[str, Any]], cluster_roles: Iterable[Mapping[str, Any]] = ()) -> set[Right]:
    """Return the rights that the bindings among `manifests` grant; `cluster_roles` exist already."""
    manifests = list(manifests)
    roles = {
        _identity(manifest): manifest
        for manifest in (*manifests, *cluster_roles)
        if manifest["kind"] in ("Role", "ClusterRole")
    }
    names = set()
    for binding in manifests:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        namespace, reference = binding["metadata"].get("namespace", ""), binding["roleRef"]
        scope = namespace if reference["kind"] == "Role" else ""
        for rule in roles[reference["kind"], scope, reference["name"]]["rules"]:
            names |= {
                Right(namespace, group, resource, verb, name)
                for group in rule.get("apiGroups", ())
                for resource in rule.get("resources", ())
                for verb in rule["verbs"]
                for name in rule.get("resourceNames") or ("",)
            }
    return names


def _identity(manifest: Mapping[str, Any]) -> tuple[str, str, str]:
    return manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
