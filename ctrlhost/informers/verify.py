"""Comparison of a cache with the server: an idle informer must hold the same versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import CtrlhostError, Stale
from ctrlhost.transport.responses import decode_object

if TYPE_CHECKING:
    from ctrlhost.client import Client
    from ctrlhost.informers.namespace_informer import NamespaceInformer

_TRIES = 10
_PAGE = 500
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True, slots=True)
class Difference:
    """One object whose version differs between cache and server; an empty version means that the object is missing."""

    key: str
    cached: str
    served: str


def check_parts(client: Client, parts: tuple[NamespaceInformer, ...], *, repair: bool) -> list[Difference]:
    """Compare all parts; with `repair`, those that differ list again."""
    differences: list[Difference] = []
    for part in parts:
        if not part.engine.has_synced:
            raise CtrlhostError(f"cannot compare {part.resource}: it has no first list yet")
        here = _differences(client, part)
        if here and repair:
            part.reflector.relist()
        differences += here
    return differences


def _differences(client: Client, part: NamespaceInformer) -> list[Difference]:
    """Compare a part's cache with the server at the cache's version; Stale while changes arrive too fast."""
    for _ in range(_TRIES):
        version = part.engine.last_resource_version
        cached = {obj.key: obj.resource_version for obj in part.engine.indexer.list()}
        if version and version == part.engine.last_resource_version and not part.engine.stats()["queued"]:
            break
    else:
        raise Stale(f"cannot compare {part.resource} with the server: it is not listed yet or changes too fast")
    served = _served(client, part, version)
    keys = sorted(key for key in cached.keys() | served.keys() if cached.get(key) != served.get(key))
    return [Difference(key, cached.get(key, ""), served.get(key, "")) for key in keys]


def _served(client: Client, part: NamespaceInformer, version: str) -> dict[str, str]:
    """Return the versions by key that the server holds at exactly this version."""
    resource = client.resource(part.scope.api_version, part.scope.kind)
    path = resource.path(part.namespace)
    query: dict[str, Any] = {
        "labelSelector": part.scope.label_selector,
        "fieldSelector": part.scope.field_selector,
        "limit": _PAGE,
        "resourceVersion": version,
        "resourceVersionMatch": "Exact",
    }
    versions: dict[str, str] = {}
    while True:
        response = client.transport.request("GET", path, query=query, headers={"Accept": _METADATA})
        page = decode_object(response, f"GET {path}")
        for item in page.get("items") or ():
            metadata = item["metadata"]
            if not part.takes(metadata):
                continue
            namespace = metadata.get("namespace")
            versions[f"{namespace}/{metadata['name']}" if namespace else metadata["name"]] = metadata["resourceVersion"]
        token = (page.get("metadata") or {}).get("continue")
        if not token:
            return versions
        query.update({"continue": token, "resourceVersion": None, "resourceVersionMatch": None})
