"""The objects that a plugin ships besides its CRDs, such as an admission policy or a PriorityClass."""

from __future__ import annotations

from typing import Any

from ctrlhost.client.builtin_kinds import builtin_plural


def problem_of(obj: object) -> str:
    """Return why a plugin cannot ship `obj`; "" if it can. A custom kind may be namespaced or not."""
    if not isinstance(obj, dict):
        return f"{obj!r:.80} is not an object"
    metadata = obj.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    for path, value in (("apiVersion", obj.get("apiVersion")), ("kind", obj.get("kind")), ("name", names.get("name"))):
        if not isinstance(value, str) or not value:
            return f"{obj!r:.80}: {'metadata.' if path == 'name' else ''}{path}: Required value"
    for path, kind in (("namespace", str), ("annotations", dict), ("labels", dict)):
        if not isinstance(names.get(path), kind | None):
            return f"{obj!r:.80}: metadata.{path}: Invalid value"
    if obj["kind"] == "CustomResourceDefinition":
        return f"{described(obj)} is a CRD, which belongs to those of the plugin: `crds=`"
    _, namespaced = builtin_plural(obj["apiVersion"], obj["kind"]) or ("", False)
    return f"{described(obj)}: metadata.namespace: Required value" if namespaced and not names.get("namespace") else ""


def described(obj: dict[str, Any]) -> str:
    """Return kind and name of an object, as in messages."""
    metadata = obj["metadata"]
    return f"{obj['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"
