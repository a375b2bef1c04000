"""The default roles of a cluster, for the resources of the sandbox and others that manifests often name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.auth.authorizer import GROUP, MASTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_APPS = ("daemonsets", "deployments", "replicasets", "statefulsets")
_SCALED = ("deployments/scale", "replicasets/scale", "statefulsets/scale")
_ONLY_VIEWED = ("bindings", "limitranges", "namespaces", "namespaces/status", "pods/log", "pods/status")
_CONNECTIONS = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy")
_INGRESSES = ("ingresses", "networkpolicies")
_KEYS = ("/.well-known/openid-configuration", "/openid/v1/jwks")
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_MONITORED = (
    *(f"/{name}{end}" for name in ("healthz", "livez", "readyz") for end in ("", "/*")),
    "/metrics",
    "/metrics/slis",
)
Rules = list[dict[str, Any]]


def _rule(verbs: Iterable[str], groups: Iterable[str] | str, *resources: str) -> dict[str, Any]:
    named = [groups] if isinstance(groups, str) else list(groups)
    return {"verbs": list(verbs), "apiGroups": named, "resources": list(resources)}


def _paths(verbs: Iterable[str], *urls: str) -> dict[str, Any]:
    return {"verbs": list(verbs), "nonResourceURLs": list(urls)}


def _view() -> Rules:
    core = ("configmaps", "endpoints", "persistentvolumeclaims", "pods", "replicationcontrollers", "serviceaccounts")
    statuses = [f"{name}/status" for name in _APPS]
    return [
        _rule(_READ, "", *core, "persistentvolumeclaims/status", "services", "services/status"),
        _rule(_READ, "", "replicationcontrollers/scale", "replicationcontrollers/status"),
        _rule(_READ, "", *_ONLY_VIEWED, "resourcequotas", "resourcequotas/status"),
        _rule(_READ, ("", "events.k8s.io"), "events"),
        _rule(_READ, "discovery.k8s.io", "endpointslices"),
        _rule(_READ, "apps", "controllerrevisions", *_APPS, *_SCALED, *statuses),
        _rule(_READ, "autoscaling", "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
        _rule(_READ, "batch", "cronjobs", "cronjobs/status", "jobs", "jobs/status"),
        _rule(_READ, "policy", "poddisruptionbudgets", "poddisruptionbudgets/status"),
        _rule(_READ, "networking.k8s.io", *_INGRESSES, "ingresses/status"),
    ]


def _edit() -> Rules:
    core = ("configmaps", "persistentvolumeclaims", "replicationcontrollers", "replicationcontrollers/scale")
    return [
        _rule(_READ, "", *_CONNECTIONS, "secrets", "services/proxy"),
        _rule(["impersonate"], "", "serviceaccounts"),
        _rule(_WRITE, "", "pods", *_CONNECTIONS),
        _rule(["create"], "", "pods/eviction", "serviceaccounts/token"),
        _rule(_WRITE, "", *core, "secrets", "serviceaccounts", "services", "services/proxy"),
        _rule(_WRITE, ("", "events.k8s.io"), "events"),
        _rule(_WRITE, "apps", *_APPS, *_SCALED, "deployments/rollback"),
        _rule(_WRITE, "autoscaling", "horizontalpodautoscalers"),
        _rule(_WRITE, "batch", "cronjobs", "jobs"),
        _rule(_WRITE, "policy", "poddisruptionbudgets"),
        _rule(_WRITE, "networking.k8s.io", *_INGRESSES),
        _rule((*_WRITE, *_READ), "coordination.k8s.io", "leases"),
    ]


def _admin() -> Rules:
    return [
        _rule(["create"], "authorization.k8s.io", "localsubjectaccessreviews"),
        _rule((*_WRITE, *_READ), GROUP, "rolebindings", "roles"),
    ]


def _others() -> dict[str, Rules]:
    own = _rule(["create"], "authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews")
    api = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
    return {
        "cluster-admin": [_rule("*", "*", "*"), _paths("*", "*")],
        "system:auth-delegator": [
            _rule(["create"], "authentication.k8s.io", "tokenreviews"),
            _rule(["create"], "authorization.k8s.io", "subjectaccessreviews"),
        ],
        "system:basic-user": [own, _rule(["create"], "authentication.k8s.io", "selfsubjectreviews")],
        "system:discovery": [_paths(["get"], *api, *_HEALTH)],
        "system:monitoring": [_paths(["get"], *_MONITORED)],
        "system:public-info-viewer": [_paths(["get"], *_HEALTH)],
        "system:service-account-issuer-discovery": [
            _paths(["get"], *(f"{path}{end}" for path in _KEYS for end in ("", "/")))
        ],
    }


_BOUND = {
    "cluster-admin": (MASTERS,),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:monitoring": ("system:monitoring",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
}
#: The role that each user-facing role is aggregated to.
_INCLUDED = {"view": "edit", "edit": "admin", "admin": ""}


def objects() -> Iterator[dict[str, Any]]:
    """Return the roles and bindings."""
    for name, rules in _others().items():
        yield _object("ClusterRole", name, rules=rules)
    for name, rules in (("view", _view()), ("edit", _edit()), ("admin", _admin())):
        label, above = f"{GROUP}/aggregate-to-{name}", _INCLUDED[name]
        selected = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
        labels = {f"{GROUP}/aggregate-to-{above}": "true"} if above else {}
        yield _object("ClusterRole", f"system:aggregate-to-{name}", {label: "true"}, rules=rules)
        yield _object("ClusterRole", name, labels, aggregationRule=selected)
    for name, groups in _BOUND.items():
        subjects = [{"kind": "Group", "apiGroup": GROUP, "name": group} for group in groups]
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        yield _object("ClusterRoleBinding", name, roleRef=reference, subjects=subjects)


def _object(kind: str, name: str, labels: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})}}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, **body}
