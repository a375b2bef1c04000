"""The objects of a cluster as text that is the same in each run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from ctrlhost.models.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from ctrlhost.client import Client
    from ctrlhost.models.kinds import KindRef

#: The annotations of `ctx.ensure`.
_APPLIED = "applied.ctrlhost.dev/"
_LEFT_OUT = frozenset(
    {
        *("uid", "resourceVersion", "generation", "observedGeneration", "managedFields", "selfLink"),
        *("nodePort", "healthCheckNodePort", "clusterIP", "clusterIPs"),
    }
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)").fullmatch
#: What the server itself creates, in each namespace or once.
_OF_THE_SERVER = frozenset(
    {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"), ("Service", "kubernetes")}
)
#: A Service without cluster IP says so.
_HEADLESS = ("None", ["None"])


def take_snapshot(
    client: Client, kinds: Iterable[KindRef[Any]], *, of_test: AbstractSet[tuple[str, str, str]] | None = None
) -> str:
    """See `HostUnderTest.snapshot`; `of_test` are resource, namespace and name of what to show of a shared server.

    With it, all objects of the client's namespace and of those in `of_test` are shown, too.
    """
    objects = [obj for kind in kinds for obj in _objects(client, *kind_of(kind)[:2], of_test)]
    stripped = _without_generated_names([(_stripped(obj), obj) for obj in objects], client.namespace)
    return yaml.safe_dump_all(stripped, sort_keys=True, default_flow_style=False, allow_unicode=True)


def _objects(
    client: Client, api_version: str, kind: str, of_test: AbstractSet[tuple[str, str, str]] | None
) -> list[dict[str, Any]]:
    resource = client.resource(api_version, kind)
    objects = list(client.list(api_version, kind))
    if of_test is not None:
        plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        objects = [obj for obj in objects if _is_shown(obj["metadata"], plural, client.namespace, of_test)]
    objects = [obj for obj in objects if (kind, obj["metadata"]["name"]) not in _OF_THE_SERVER]
    return sorted(objects, key=lambda obj: _place(obj, client.namespace))


def _is_shown(
    metadata: dict[str, Any], plural: str, namespace: str, of_test: AbstractSet[tuple[str, str, str]]
) -> bool:
    where = metadata.get("namespace", "")
    return where == namespace or (plural, where, metadata["name"]) in of_test or ("namespaces", "", where) in of_test


def _stripped(value: Any, path: tuple[str, ...] = ()) -> Any:
    if isinstance(value, dict):
        kept = {}
        for name, item in value.items():
            if _is_left_out(name, item, path):
                continue
            below = _stripped(item, (*path, name))
            if below in ({}, []) and item not in ({}, []):
                # Nothing is left of it.
                continue
            kept[name] = below
        return kept
    return [_stripped(item, path) for item in value] if isinstance(value, list) else value


def _is_left_out(name: str, value: Any, path: tuple[str, ...]) -> bool:
    if path[-1:] in (("labels",), ("annotations",), ("data",), ("stringData",), ("binaryData",)):
        return path == ("metadata", "annotations") and name.startswith(_APPLIED)
    if name in ("clusterIP", "clusterIPs") and value in _HEADLESS:
        return False
    return name in _LEFT_OUT or (isinstance(value, str) and bool(_TIME(value)))


def _without_generated_names(
    objects: Sequence[tuple[dict[str, Any], dict[str, Any]]], own: str
) -> list[dict[str, Any]]:
    """Number generated names, by the content of their objects, wherever they occur; `own` is the test's namespace."""
    generated = [(stripped, obj["metadata"]) for stripped, obj in objects if obj["metadata"].get("generateName")]
    by_content = sorted(generated, key=lambda item: (item[1]["generateName"], _content(item[0])))
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for _, metadata in by_content:
        prefix = metadata["generateName"]
        counts[prefix] = counts.get(prefix, 0) + 1
        names[metadata["name"]] = f"{prefix}{counts[prefix]}"
    renamed = [_renamed(stripped, names) for stripped, _ in objects]
    return sorted(renamed, key=lambda item: (item["apiVersion"], item["kind"], _place(item, own))) if names else renamed


def _content(obj: dict[str, Any]) -> str:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "name"}
    return yaml.safe_dump({**obj, "metadata": metadata}, sort_keys=True)


def _place(obj: dict[str, Any], own: str) -> tuple[str, str]:
    """Return what objects are sorted by: the test's own namespace is written as `default`."""
    namespace = obj["metadata"].get("namespace", "")
    return "default" if namespace == own else namespace, obj["metadata"]["name"]


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _renamed(item, names) for name, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
