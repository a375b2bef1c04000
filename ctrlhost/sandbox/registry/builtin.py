"""The built-in kinds, as data."""

from __future__ import annotations

from typing import Any

from ctrlhost.sandbox.registry.registry import FieldPath, Kind, Scale, Subresource

STATUS = Subresource("status")
SCALE = Subresource("scale", group="autoscaling", version="v1", kind="Scale")
RBAC = "rbac.authorization.k8s.io"
_NO_COLLECTION_DELETE = ("create", "delete", "get", "list", "patch", "update", "watch")
_POD_FIELDS = (
    *(f"spec.{name}" for name in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName", "hostNetwork")),
    *("status.phase", "status.podIP", "status.nominatedNodeName"),
)
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _fields(*paths: str) -> dict[str, FieldPath]:
    return {path: tuple(path.split(".")) for path in paths}


def _kind(group: str, names: str, **more: Any) -> Kind:
    """Make a kind; `names` are the kind, the plural and short names."""
    kind, plural, *short = names.split()
    more.setdefault("table", f"{group}/{plural}" if group else plural)
    more.setdefault("list_kind", f"{kind}List")
    more.setdefault("singular", kind.lower())
    return Kind(group, "v1", kind, plural, short_names=tuple(short), **more)


def _review(group: str, names: str, *, namespaced: bool = False) -> Kind:
    return _kind(group, names, namespaced=namespaced, verbs=("create",), virtual=True, list_kind="")


def builtin_kinds() -> list[Kind]:
    """Return the kinds that are served without any CRD."""
    workload: dict[str, Any] = {"generation": True, "categories": ("all",), "subresources": (STATUS,)}
    scaled: dict[str, Any] = {**workload, "subresources": (SCALE, STATUS), "scale": Scale()}
    rbac: dict[str, Any] = {"creates_on_update": True, "name_rule": "segment"}
    return [
        _kind(
            "",
            "Namespace namespaces ns",
            namespaced=False,
            verbs=_NO_COLLECTION_DELETE,
            subresources=(Subresource("finalize", ("update",)), STATUS),
            name_rule="label",
            returns_object=True,
            field_selectors=_fields("status.phase") | {"name": ("metadata", "name")},
        ),
        _kind(
            "", "Node nodes no", namespaced=False, subresources=(STATUS,), field_selectors=_fields("spec.unschedulable")
        ),
        _kind(
            "",
            "Pod pods po",
            categories=("all",),
            generation=True,
            returns_object=True,
            subresources=(
                Subresource("binding", ("create",), kind="Binding"),
                Subresource("eviction", ("create",), group="policy", version="v1", kind="Eviction"),
                Subresource("log", ("get",)),
                STATUS,
            ),
            field_selectors=_fields(*_POD_FIELDS),
        ),
        _kind(
            "",
            "Service services svc",
            categories=("all",),
            returns_object=True,
            creates_on_update=True,
            name_rule="label",
            subresources=(STATUS,),
            field_selectors=_fields("spec.clusterIP", "spec.type"),
        ),
        _kind("", "Secret secrets", field_selectors=_fields("type")),
        _kind("", "ConfigMap configmaps cm"),
        _kind("", "Endpoints endpoints ep", singular="endpoints", creates_on_update=True),
        _kind(
            "",
            "Event events ev",
            table="events",
            creates_on_update=True,
            field_selectors=_fields("reason", "type", "reportingComponent", *_reference("involvedObject"))
            | {"source": ("source", "component")},
        ),
        _kind(
            "",
            "ServiceAccount serviceaccounts sa",
            returns_object=True,
            subresources=(
                Subresource("token", ("create",), group="authentication.k8s.io", version="v1", kind="TokenRequest"),
            ),
        ),
        _kind("apps", "ControllerRevision controllerrevisions"),
        _kind("apps", "DaemonSet daemonsets ds", **workload),
        _kind("apps", "Deployment deployments deploy", **scaled),
        _kind("apps", "ReplicaSet replicasets rs", **scaled),
        _kind("apps", "StatefulSet statefulsets sts", name_rule="label", **scaled),
        _kind("networking.k8s.io", "Ingress ingresses ing", generation=True, subresources=(STATUS,)),
        _kind("networking.k8s.io", "IngressClass ingressclasses", namespaced=False, generation=True),
        _kind("coordination.k8s.io", "Lease leases", needs_version=True, creates_on_update=True),
        _kind("discovery.k8s.io", "EndpointSlice endpointslices", generation=True),
        _kind(
            "events.k8s.io",
            "Event events ev",
            table="events",
            creates_on_update=True,
            field_selectors=_fields("reason", "type", "reportingController", *_reference("regarding")),
        ),
        _kind(RBAC, "ClusterRole clusterroles", namespaced=False, **rbac),
        _kind(RBAC, "ClusterRoleBinding clusterrolebindings", namespaced=False, **rbac),
        _kind(RBAC, "Role roles", **rbac),
        _kind(RBAC, "RoleBinding rolebindings", **rbac),
        _kind(
            "apiextensions.k8s.io",
            "CustomResourceDefinition customresourcedefinitions crd crds",
            categories=("api-extensions",),
            namespaced=False,
            needs_version=True,
            generation=True,
            returns_object=True,
            subresources=(STATUS,),
        ),
        _review("authorization.k8s.io", "LocalSubjectAccessReview localsubjectaccessreviews", namespaced=True),
        _review("authorization.k8s.io", "SelfSubjectAccessReview selfsubjectaccessreviews"),
        _review("authorization.k8s.io", "SelfSubjectRulesReview selfsubjectrulesreviews"),
        _review("authorization.k8s.io", "SubjectAccessReview subjectaccessreviews"),
        _review("authentication.k8s.io", "SelfSubjectReview selfsubjectreviews"),
        _review("authentication.k8s.io", "TokenReview tokenreviews"),
    ]


def _reference(name: str) -> tuple[str, ...]:
    return tuple(f"{name}.{member}" for member in _REFERENCE)
