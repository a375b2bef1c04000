"""The built-in kinds, as data."""

from __future__ import annotations

from typing import Any

from ctrlhost_sandbox.registry.registry import FieldPath, Kind, Scale, Subresource

STATUS = Subresource("status")
SCALE = Subresource("scale", group="autoscaling", version="v1", kind="Scale")
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
FLOW = "flowcontrol.apiserver.k8s.io"
_AUTOSCALER = "HorizontalPodAutoscaler horizontalpodautoscalers"
_PROXY = ("create", "delete", "get", "patch", "update")
_NO_COLLECTION_DELETE = ("create", "delete", "get", "list", "patch", "update", "watch")
_POD_FIELDS = (
    *(f"spec.{name}" for name in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName", "hostNetwork")),
    *("status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"),
)
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _fields(*paths: str) -> dict[str, FieldPath]:
    return {path: tuple(path.split(".")) for path in paths}


def _kind(group: str, names: str, version: str = "v1", **more: Any) -> Kind:
    """Make a kind; `names` are the kind, the plural and short names."""
    kind, plural, *short = names.split()
    more.setdefault("table", f"{group}/{plural}" if group else plural)
    more.setdefault("list_kind", f"{kind}List")
    more.setdefault("singular", kind.lower())
    return Kind(group, version, kind, plural, short_names=tuple(short), **more)


def _posted(group: str, names: str, *, namespaced: bool = False) -> Kind:
    return _kind(group, names, namespaced=namespaced, verbs=("create",), virtual=True, list_kind="")


def _connection(name: str, kind: str, *verbs: str) -> Subresource:
    """Make a sub-resource that passes requests on, to a container or through a proxy."""
    return Subresource(name, verbs or ("create", "get"), kind=kind)


def _reference(name: str) -> tuple[str, ...]:
    return tuple(f"{name}.{member}" for member in _REFERENCE)


WORKLOAD: dict[str, Any] = {"generation": True, "categories": ("all",), "subresources": (STATUS,)}
SCALED: dict[str, Any] = {**WORKLOAD, "subresources": (SCALE, STATUS), "scale": Scale()}
CLUSTER: dict[str, Any] = {"namespaced": False}
EXTENSION: dict[str, Any] = {**CLUSTER, "categories": ("api-extensions",), "generation": True, "needs_version": True}
RETURNED: dict[str, Any] = {"returns_object": True}
WITH_STATUS: dict[str, Any] = {"subresources": (STATUS,)}
ROLE: dict[str, Any] = {"creates_on_update": True, "name_rule": "segment"}


def builtin_kinds() -> list[Kind]:
    """Return the kinds that are served without any CRD; of a kind with several versions, the stored one first."""
    return [*_core(), *_groups()]


def _core() -> list[Kind]:
    return [
        _posted("", "Binding bindings", namespaced=True),
        _kind(
            "",
            "ComponentStatus componentstatuses cs",
            **CLUSTER,
            verbs=("get", "list"),
            deprecation="v1 ComponentStatus is deprecated in v1.19+",
        ),
        _kind("", "ConfigMap configmaps cm"),
        _kind(
            "",
            "Endpoints endpoints ep",
            singular="endpoints",
            creates_on_update=True,
            deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        _kind(
            "",
            "Event events ev",
            table="events",
            creates_on_update=True,
            field_selectors=_fields("reason", "type", "reportingComponent", *_reference("involvedObject"))
            | {"source": ("source", "component")},
        ),
        _kind("", "LimitRange limitranges limits", creates_on_update=True),
        _kind(
            "",
            "Namespace namespaces ns",
            **CLUSTER,
            **RETURNED,
            verbs=_NO_COLLECTION_DELETE,
            subresources=(Subresource("finalize", ("update",)), STATUS),
            name_rule="label",
            field_selectors=_fields("status.phase") | {"name": ("metadata", "name")},
        ),
        _kind(
            "",
            "Node nodes no",
            **CLUSTER,
            subresources=(_connection("proxy", "NodeProxyOptions", *_PROXY), STATUS),
            field_selectors=_fields("spec.unschedulable"),
        ),
        _kind("", "PersistentVolumeClaim persistentvolumeclaims pvc", **WITH_STATUS, **RETURNED),
        _kind("", "PersistentVolume persistentvolumes pv", **CLUSTER, **WITH_STATUS, **RETURNED),
        _kind(
            "",
            "Pod pods po",
            **RETURNED,
            categories=("all",),
            generation=True,
            subresources=(
                _connection("attach", "PodAttachOptions"),
                Subresource("binding", ("create",), kind="Binding"),
                Subresource("ephemeralcontainers"),
                Subresource("eviction", ("create",), group="policy", version="v1", kind="Eviction"),
                _connection("exec", "PodExecOptions"),
                Subresource("log", ("get",)),
                _connection("portforward", "PodPortForwardOptions"),
                _connection("proxy", "PodProxyOptions", *_PROXY),
                Subresource("resize"),
                STATUS,
            ),
            field_selectors=_fields(*_POD_FIELDS),
        ),
        _kind("", "PodTemplate podtemplates", **RETURNED, generation=True),
        _kind(
            "",
            "ReplicationController replicationcontrollers rc",
            **SCALED,
            field_selectors=_fields("status.replicas"),
        ),
        _kind("", "ResourceQuota resourcequotas quota", **WITH_STATUS, **RETURNED),
        _kind("", "Secret secrets", field_selectors=_fields("type")),
        _kind(
            "",
            "ServiceAccount serviceaccounts sa",
            **RETURNED,
            subresources=(
                Subresource("token", ("create",), group="authentication.k8s.io", version="v1", kind="TokenRequest"),
            ),
        ),
        _kind(
            "",
            "Service services svc",
            **RETURNED,
            categories=("all",),
            creates_on_update=True,
            name_rule="label",
            subresources=(_connection("proxy", "ServiceProxyOptions", *_PROXY), STATUS),
            field_selectors=_fields("spec.clusterIP", "spec.type"),
        ),
    ]


def _groups() -> list[Kind]:
    return [
        _kind(
            "apiregistration.k8s.io",
            "APIService apiservices",
            **{**EXTENSION, **WITH_STATUS, "generation": False},
            name_rule="segment",
        ),
        _kind("apps", "ControllerRevision controllerrevisions"),
        _kind("apps", "DaemonSet daemonsets ds", **WORKLOAD),
        _kind("apps", "Deployment deployments deploy", **SCALED),
        _kind("apps", "ReplicaSet replicasets rs", **SCALED),
        _kind("apps", "StatefulSet statefulsets sts", name_rule="label", **SCALED),
        _kind(
            "events.k8s.io",
            "Event events ev",
            table="events",
            creates_on_update=True,
            field_selectors=_fields("reason", "type", "reportingController", *_reference("regarding")),
        ),
        _posted("authentication.k8s.io", "SelfSubjectReview selfsubjectreviews"),
        _posted("authentication.k8s.io", "TokenReview tokenreviews"),
        _posted("authorization.k8s.io", "LocalSubjectAccessReview localsubjectaccessreviews", namespaced=True),
        _posted("authorization.k8s.io", "SelfSubjectAccessReview selfsubjectaccessreviews"),
        _posted("authorization.k8s.io", "SelfSubjectRulesReview selfsubjectrulesreviews"),
        _posted("authorization.k8s.io", "SubjectAccessReview subjectaccessreviews"),
        _kind("autoscaling", f"{_AUTOSCALER} hpa", "v2", categories=("all",), **WITH_STATUS),
        _kind("autoscaling", f"{_AUTOSCALER} hpa", "v1", categories=("all",), **WITH_STATUS),
        _kind("batch", "CronJob cronjobs cj", **WORKLOAD),
        _kind("batch", "Job jobs", **WORKLOAD, field_selectors={"status.successful": ("status", "succeeded")}),
        _kind(
            "certificates.k8s.io",
            "CertificateSigningRequest certificatesigningrequests csr",
            **CLUSTER,
            name_rule="segment",
            subresources=(Subresource("approval"), STATUS),
            field_selectors=_fields("spec.signerName"),
        ),
        _kind("networking.k8s.io", "IngressClass ingressclasses", **CLUSTER, generation=True),
        _kind("networking.k8s.io", "Ingress ingresses ing", generation=True, **WITH_STATUS),
        _kind("networking.k8s.io", "IPAddress ipaddresses ip", **CLUSTER),
        _kind("networking.k8s.io", "NetworkPolicy networkpolicies netpol", generation=True),
        _kind("networking.k8s.io", "ServiceCIDR servicecidrs", **CLUSTER, **WITH_STATUS),
        _kind(
            "policy", "PodDisruptionBudget poddisruptionbudgets pdb", **WITH_STATUS, generation=True, needs_version=True
        ),
        _kind(RBAC, "ClusterRoleBinding clusterrolebindings", **CLUSTER, **ROLE),
        _kind(RBAC, "ClusterRole clusterroles", **CLUSTER, **ROLE),
        _kind(RBAC, "RoleBinding rolebindings", **ROLE),
        _kind(RBAC, "Role roles", **ROLE),
        _kind("storage.k8s.io", "CSIDriver csidrivers", **CLUSTER, **RETURNED, needs_version=True),
        _kind("storage.k8s.io", "CSINode csinodes", **CLUSTER, **RETURNED, needs_version=True),
        _kind("storage.k8s.io", "CSIStorageCapacity csistoragecapacities", needs_version=True),
        _kind("storage.k8s.io", "StorageClass storageclasses sc", **CLUSTER, **RETURNED),
        _kind(
            "storage.k8s.io",
            "VolumeAttachment volumeattachments",
            **CLUSTER,
            **RETURNED,
            **WITH_STATUS,
            needs_version=True,
        ),
        _kind("storage.k8s.io", "VolumeAttributesClass volumeattributesclasses vac", **CLUSTER, **RETURNED),
        _kind(ADMISSION, "MutatingAdmissionPolicy mutatingadmissionpolicies", **EXTENSION),
        _kind(ADMISSION, "MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings", **EXTENSION),
        _kind(ADMISSION, "MutatingWebhookConfiguration mutatingwebhookconfigurations", **EXTENSION),
        _kind(ADMISSION, "ValidatingAdmissionPolicy validatingadmissionpolicies", **EXTENSION, **WITH_STATUS),
        _kind(ADMISSION, "ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings", **EXTENSION),
        _kind(ADMISSION, "ValidatingWebhookConfiguration validatingwebhookconfigurations", **EXTENSION),
        _kind(
            "apiextensions.k8s.io",
            "CustomResourceDefinition customresourcedefinitions crd crds",
            **EXTENSION,
            **RETURNED,
            **WITH_STATUS,
        ),
        _kind("scheduling.k8s.io", "PriorityClass priorityclasses pc", **CLUSTER),
        _kind("coordination.k8s.io", "Lease leases", needs_version=True, creates_on_update=True),
        _kind("node.k8s.io", "RuntimeClass runtimeclasses", **CLUSTER, needs_version=True, creates_on_update=True),
        _kind("discovery.k8s.io", "EndpointSlice endpointslices", generation=True),
        _kind("resource.k8s.io", "DeviceClass deviceclasses", **CLUSTER, **RETURNED, generation=True),
        _kind("resource.k8s.io", "ResourceClaim resourceclaims", **WITH_STATUS, **RETURNED),
        _kind("resource.k8s.io", "ResourceClaimTemplate resourceclaimtemplates", **RETURNED),
        _kind(
            "resource.k8s.io",
            "ResourceSlice resourceslices",
            **CLUSTER,
            **RETURNED,
            generation=True,
            field_selectors=_fields("spec.nodeName", "spec.driver"),
        ),
        _kind(FLOW, "FlowSchema flowschemas", **CLUSTER, **WITH_STATUS, generation=True),
        _kind(
            FLOW, "PriorityLevelConfiguration prioritylevelconfigurations", **CLUSTER, **WITH_STATUS, generation=True
        ),
    ]
