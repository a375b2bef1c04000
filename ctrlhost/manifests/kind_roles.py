"""Roles for the users of the plugins' kinds, which the roles `view` and `edit` of Kubernetes include."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.manifests.installation import outside
from ctrlhost.permissions import Permission

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_API = "rbac.authorization.k8s.io"
_VIEW = ["get", "list", "watch"]
_EDIT = ["create", "delete", "deletecollection", *_VIEW, "patch", "update"]
#: The verbs of each role by subresource; nobody but the controller writes a status.
_VERBS = {
    "viewer": {"": _VIEW, "status": ["get"], "scale": ["get"]},
    "editor": {"": _EDIT, "status": ["get"], "scale": ["get", "patch", "update"]},
}
#: The role of Kubernetes that the controller manager adds the rules to. `edit` includes `view`, and `admin` both.
_ABOVE = {"viewer": "view", "editor": "edit"}


def kind_roles(crds: Iterable[dict[str, Any]], name: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Return a role to view and one to edit the objects of each CRD, for the installation `name` in `namespace`."""
    for crd in crds:
        spec = crd["spec"]
        served = {"", *(part for version in spec["versions"] for part in version.get("subresources") or ())}
        for use, verbs in _VERBS.items():
            metadata = {
                "name": outside(f"{name}-{crd['metadata']['name']}-{use}", namespace),
                "labels": {f"{_API}/aggregate-to-{_ABOVE[use]}": "true"},
            }
            rules = [
                Permission(spec["group"], ["/".join(filter(None, (spec["names"]["plural"], part)))], allowed).rule()
                for part, allowed in verbs.items()
                if part in served
            ]
            yield {"apiVersion": f"{_API}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
