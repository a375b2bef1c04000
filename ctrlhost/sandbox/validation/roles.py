"""What makes roles and their bindings invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.sandbox.apimachinery import status

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause


def role(obj: Object) -> list[Cause]:
    """Check a Role or ClusterRole."""
    found = []
    for index, rule in enumerate(obj.get("rules") or ()):
        if not rule.get("verbs"):
            found.append(status.required(f"rules[{index}].verbs", "verbs must contain at least one value"))
        if not rule.get("nonResourceURLs") and not (rule.get("apiGroups") and rule.get("resources")):
            where = f"rules[{index}].{'resources' if rule.get('apiGroups') else 'apiGroups'}"
            found.append(status.required(where, "resource rules must supply at least one api group and resource"))
    return found


def binding(obj: Object) -> list[Cause]:
    """Check a RoleBinding or ClusterRoleBinding."""
    referred = obj.get("roleRef") or {}
    allowed = ("ClusterRole",) if obj["kind"] == "ClusterRoleBinding" else ("ClusterRole", "Role")
    found = []
    if referred.get("kind") not in allowed:
        found.append(status.not_supported("roleRef.kind", referred.get("kind", ""), allowed))
    if not referred.get("name"):
        found.append(status.required("roleRef.name"))
    for index, subject in enumerate(obj.get("subjects") or ()):
        if not subject.get("name"):
            found.append(status.required(f"subjects[{index}].name"))
        if subject.get("kind") not in ("Group", "ServiceAccount", "User"):
            supported = ("Group", "ServiceAccount", "User")
            found.append(status.not_supported(f"subjects[{index}].kind", subject.get("kind", ""), supported))
        elif subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
            found.append(status.required(f"subjects[{index}].namespace"))
    return found
