"""The approval that a CRD in a group of the Kubernetes community needs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object

ANNOTATION = "api-approved.kubernetes.io"
CONDITION = "KubernetesAPIApprovalPolicyConformant"
MISSING, INVALID, BYPASSED, APPROVED = (
    "MissingAnnotation",
    "InvalidAnnotation",
    "UnapprovedAnnotation",
    "ApprovedAnnotation",
)
_GROUPS = ("k8s.io", "kubernetes.io")
_NEEDED = f'protected groups must have approval annotation "{ANNOTATION}"'
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


def judge(crd: Object) -> tuple[str, str] | None:
    """Return the reason and message of the condition; None for a CRD of another group."""
    group = crd["spec"].get("group", "")
    if not any(group == name or group.endswith(f".{name}") for name in _GROUPS):
        return None
    text = value_of(crd)
    if not text:
        return MISSING, f"{_NEEDED}, {_SEE}"
    if text.startswith("unapproved"):
        return BYPASSED, f'not approved: "{text}"'
    if _is_url(text):
        return APPROVED, f"approved in {text}"
    return INVALID, f'{_NEEDED} with either a URL or a reason starting with "unapproved", {_SEE}'


def value_of(crd: Object) -> str:
    """Return the annotation; "" if it is missing."""
    text: str = (crd["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    return text


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)
