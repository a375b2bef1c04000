"""A file of the operator that is merged into the pods, as `kubectl patch` merges it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError
from ctrlhost.yaml_text import load_documents

if TYPE_CHECKING:
    from pathlib import Path

_FLAG = "--set-pod"
#: What the file may have, and below `metadata`.
_PARTS, _METADATA = ("metadata", "spec"), ("annotations", "labels")
#: The key of lists that are merged item by item; others are replaced.
_MERGE_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "env", "imagePullSecrets", "volumes"), "name"),
    **dict.fromkeys(("resourceClaims", "schedulingGates"), "name"),
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
#: Lists whose items are replaced: a volume has one source.
_WHOLE = frozenset({"volumes"})
_DIRECTIVE = "$patch"


def read_pod_patch(path: Path) -> dict[str, Any]:
    """Return the content of the file: `metadata` and `spec` of the pod template. ConfigError if it is invalid."""
    try:
        documents = load_documents(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{_FLAG} {path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise ConfigError(f"{_FLAG} {path}: invalid YAML: {error}") from None
    content = documents[0] if len(documents) == 1 else None
    if not isinstance(content, dict):
        raise ConfigError(f"{_FLAG} {path}: must be a mapping", hint="write `spec:` and, below it, fields of a pod")
    _check(path, "", content, _PARTS, "write fields of the pod below `spec:`")
    for part in _PARTS:
        if not isinstance(content.get(part, {}), dict):
            raise ConfigError(f"{_FLAG} {path}: {part}: must be a mapping")
    _check(path, "metadata.", content.get("metadata", {}), _METADATA, "pods get `labels` and `annotations` from it")
    return content


def _check(path: Path, prefix: str, fields: dict[str, Any], known: tuple[str, ...], hint: str) -> None:
    for field in fields:
        if field not in known:
            raise ConfigError(f"{_FLAG} {path}: unknown field `{prefix}{field}`", hint=hint)


def patch_pods(deployment: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return a Deployment with the patch merged into its pod template.

    As in a strategic merge patch: null removes a field, items of lists with a merge key are merged, other lists are
    replaced, and `$patch: delete` or `replace` acts on the mapping that it is in. ConfigError for an item without its
    key, and for a change of the labels that select the pods.
    """
    spec = deployment["spec"]
    template = _merged(spec["template"], patch, "")
    labels = template.get("metadata", {}).get("labels") or {}
    for name, value in spec["selector"]["matchLabels"].items():
        if labels.get(name) != value:
            raise ConfigError(
                f"{_FLAG}: metadata.labels.{name}: the label selects the pods, and cannot be changed",
                hint="`--name` names the Deployment and its pods",
            )
    return {**deployment, "spec": {**spec, "template": template}}


def _merged(value: Any, patch: Any, path: str) -> Any:
    field = path.rpartition(".")[2]
    if isinstance(patch, dict):
        return _merged_mapping(value, patch, path)
    if isinstance(patch, list) and field in _MERGE_KEYS:
        return _merged_list(value if isinstance(value, list) else [], patch, path)
    return patch


def _merged_mapping(value: Any, patch: dict[str, Any], path: str) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE, "merge")
    unknown = next((name for name in patch if name.startswith("$") and name != _DIRECTIVE), None)
    if unknown is not None or directive not in ("merge", "replace", "delete"):
        where = f"{path}.{unknown or _DIRECTIVE}".removeprefix(".")
        raise ConfigError(f"{_FLAG}: {where}: unknown directive", hint="`$patch: delete` and `$patch: replace` work")
    merged = dict(value) if isinstance(value, dict) and directive == "merge" else {}
    for name, change in patch.items():
        if name == _DIRECTIVE:
            continue
        if change is None or (isinstance(change, dict) and change.get(_DIRECTIVE) == "delete"):
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), change, f"{path}.{name}".removeprefix("."))
    return merged


def _merged_list(value: list[Any], patch: list[Any], path: str) -> list[Any]:
    field = path.rpartition(".")[2]
    key = _MERGE_KEYS[field]
    if any(item == {_DIRECTIVE: "replace"} for item in patch):
        value, patch = [], [item for item in patch if item != {_DIRECTIVE: "replace"}]
    merged = list(value)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise ConfigError(f"{_FLAG}: {path}: each item needs its `{key}`")
        place = next((at for at, known in enumerate(merged) if known.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            if place is not None:
                merged.pop(place)
            continue
        before = merged[place] if place is not None and field not in _WHOLE else None
        changed = _merged(before, item, path)
        if place is None:
            merged.append(changed)
        else:
            merged[place] = changed
    return merged
