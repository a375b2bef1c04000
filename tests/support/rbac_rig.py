"""A client from a kubeconfig, and roles with their bindings, for tests of RBAC."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.support.http_client import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


def api_of(kubeconfig: Path) -> Api:
    """Return a client for a kubeconfig."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = cluster.get("certificate-authority-data")
    ca = base64.b64decode(authority).decode() if authority else Path(cluster["certificate-authority"]).read_text()
    return Api(cluster["server"], ca, user.get("token", ""))


def rule(verbs: str, groups: str = "", resources: str = "", names: str = "", urls: str = "") -> dict[str, Any]:
    """Return a rule; spaces separate the values of an argument, and `core` is the core group."""
    fields = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "resourceNames": names.split(),
        "nonResourceURLs": urls.split(),
    }
    return {key: value for key, value in fields.items() if value}


def user(name: str) -> dict[str, str]:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def group(name: str) -> dict[str, str]:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def account(namespace: str, name: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def add_role(api: Api, name: str, *rules: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    """Create a ClusterRole, or a Role in a namespace, and return the `roleRef` for bindings."""
    path = f"{RBAC}/namespaces/{namespace}/roles" if namespace else f"{RBAC}/clusterroles"
    metadata = {"name": name, **more.pop("metadata", {})}
    api.post(path, {"metadata": metadata, "rules": list(rules), **more}).expect(201)
    return reference(name, "Role" if namespace else "ClusterRole")


def reference(name: str, kind: str = "ClusterRole") -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": kind, "name": name}


def bind(api: Api, name: str, role: dict[str, Any], *subjects: dict[str, str], namespace: str = "") -> None:
    """Create a ClusterRoleBinding, or a RoleBinding in a namespace."""
    path = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
    api.post(path, {"metadata": {"name": name}, "roleRef": role, "subjects": list(subjects)}).expect(201)


def may(api: Api, verb: str, resource: str, namespace: str = "", who: str = "", **more: Any) -> bool:
    """Return whether the client, or the user `who`, may use a verb; `resource` may be `pods/log`."""
    plural, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "resource": plural, "subresource": subresource, "namespace": namespace, **more}
    headers = {"Impersonate-User": who} if who else None
    answer = api.post(
        f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}, headers=headers
    )
    allowed: bool = answer.expect(201)["status"]["allowed"]
    return allowed
