"""Plural and scope of the kinds that every API server has, so that the usual case needs no discovery.

A kind is written as `Kind` if its plural is the lower-case name with an `s`, else as `Kind=plural`; a leading `/`
means cluster-scoped.
"""

from __future__ import annotations

_CORE = (
    "Pod Service Endpoints=endpoints ConfigMap Secret ServiceAccount Event PersistentVolumeClaim "
    "ReplicationController ResourceQuota LimitRange PodTemplate "
    "/Namespace /Node /PersistentVolume /ComponentStatus=componentstatuses"
)
_ADMISSION = (
    "/ValidatingWebhookConfiguration /MutatingWebhookConfiguration "
    "/ValidatingAdmissionPolicy=validatingadmissionpolicies /ValidatingAdmissionPolicyBinding"
)
_NETWORKING = (
    "Ingress=ingresses NetworkPolicy=networkpolicies /IngressClass=ingressclasses /IPAddress=ipaddresses /ServiceCIDR"
)
_STORAGE = (
    "/StorageClass=storageclasses /VolumeAttachment /CSIDriver /CSINode "
    "CSIStorageCapacity=csistoragecapacities /VolumeAttributesClass=volumeattributesclasses"
)
_AUTHORIZATION = "/SubjectAccessReview /SelfSubjectAccessReview /SelfSubjectRulesReview LocalSubjectAccessReview"
_WORKLOADS = "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision"

BUILTIN_KINDS: dict[str, str] = {
    "v1": _CORE,
    "apps/v1": _WORKLOADS,
    "batch/v1": "Job CronJob",
    "autoscaling/v1": "HorizontalPodAutoscaler",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "policy/v1": "PodDisruptionBudget",
    "networking.k8s.io/v1": _NETWORKING,
    "discovery.k8s.io/v1": "EndpointSlice",
    "events.k8s.io/v1": "Event",
    "coordination.k8s.io/v1": "Lease",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding /ClusterRole /ClusterRoleBinding",
    "storage.k8s.io/v1": _STORAGE,
    "scheduling.k8s.io/v1": "/PriorityClass=priorityclasses",
    "node.k8s.io/v1": "/RuntimeClass=runtimeclasses",
    "certificates.k8s.io/v1": "/CertificateSigningRequest",
    "admissionregistration.k8s.io/v1": _ADMISSION,
    "apiextensions.k8s.io/v1": "/CustomResourceDefinition",
    "apiregistration.k8s.io/v1": "/APIService",
    "flowcontrol.apiserver.k8s.io/v1": "/FlowSchema /PriorityLevelConfiguration",
    "authentication.k8s.io/v1": "/TokenReview /SelfSubjectReview",
    "authorization.k8s.io/v1": _AUTHORIZATION,
}


def builtin_plural(api_version: str, kind: str) -> tuple[str, bool] | None:
    """Return the plural of a built-in kind and whether it is namespaced; None for any other kind."""
    for word in BUILTIN_KINDS.get(api_version, "").split():
        name, _, plural = word.lstrip("/").partition("=")
        if name == kind:
            return plural or f"{name.lower()}s", not word.startswith("/")
    return None


def builtin_kind(api_version: str, plural: str) -> tuple[str, bool] | None:
    """Return the built-in kind of a plural and whether it is namespaced; None for any other plural."""
    for word in BUILTIN_KINDS.get(api_version, "").split():
        name, _, written = word.lstrip("/").partition("=")
        if (written or f"{name.lower()}s") == plural:
            return name, not word.startswith("/")
    return None


def builtin_versions(kind: str) -> list[str]:
    """Return the groups and versions that have a built-in kind of this name."""
    return [version for version in BUILTIN_KINDS if builtin_plural(version, kind) is not None]
