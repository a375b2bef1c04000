"""Discovery: one document per group version, and the aggregated form."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.api.responses import document
from ctrlhost_sandbox.encoding.negotiation import JSON
from ctrlhost_sandbox.http.messages import Request, Response
from ctrlhost_sandbox.registry.registry import Kind, Subresource, content_hash, version_order

if TYPE_CHECKING:
    from ctrlhost_sandbox.context import ServerContext

AGGREGATED = "APIGroupDiscoveryList"


class Discovery:
    """Discovery documents, cached until the registry changes."""

    def __init__(self, context: ServerContext) -> None:
        """Describe the kinds of `context`."""
        self._context = context
        self._changes_seen = -1
        self._cache: dict[tuple[bool, str], bytes] = {}

    def root(self, request: Request, *, core: bool) -> Response:
        """Handle `/api` or `/apis`."""
        version = _aggregated_version(request.headers.get("accept", ""))
        if version:
            body = self._aggregated(core, version) + b"\n"
            etag = f'"{content_hash(body)}"'
            headers = [("ETag", etag), ("Vary", "Accept"), ("Cache-Control", "public")]
            content_type = f"{JSON};g=apidiscovery.k8s.io;v={version};as={AGGREGATED}"
            # A client's cache takes the headers of a 304 for the cached response, so they must be the same.
            unchanged = request.headers.get("if-none-match") == etag
            return Response(304 if unchanged else 200, b"" if unchanged else body, content_type, headers)
        if core:
            address = {"clientCIDR": "0.0.0.0/0", "serverAddress": self._context.host}
            return document(
                request, {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}
            )
        groups = [self._group(name) for name in self._groups() if name]
        return document(request, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})

    def group(self, request: Request, name: str) -> Response | None:
        """Handle `/apis/{group}`; None for an unknown group."""
        if not name or name not in self._groups():
            return None
        return document(request, {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)})

    def group_version(self, request: Request, group: str, version: str) -> Response | None:
        """Handle `/api/v1` or `/apis/{group}/{version}`; None for an unknown version."""
        kinds = self._groups().get(group, {}).get(version)
        if not kinds:
            return None
        resources: list[dict[str, Any]] = []
        for kind in kinds:
            resources.append(_resource(kind))
            resources += [_subresource(kind, sub) for sub in kind.subresources]
        name = f"{group}/{version}" if group else version
        return document(
            request, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}
        )

    def _groups(self) -> dict[str, dict[str, list[Kind]]]:
        """Return the listed kinds by group and version, preferred versions first."""
        registry = self._context.registry
        groups: dict[str, dict[str, list[Kind]]] = {}
        for kind in filter(registry.is_listed, registry):
            groups.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
        return {
            group: {name: kinds[name] for name in sorted(kinds, key=version_order)} for group, kinds in groups.items()
        }

    def _group(self, name: str) -> dict[str, Any]:
        versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in self._groups()[name]]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _aggregated(self, core: bool, version: str) -> bytes:
        if self._changes_seen != self._context.registry.changes:
            self._cache.clear()
            self._changes_seen = self._context.registry.changes
        if (core, version) not in self._cache:
            self._cache[core, version] = msgspec.json.encode(self._aggregate(core, version))
        return self._cache[core, version]

    def _aggregate(self, core: bool, version: str) -> dict[str, Any]:
        items = []
        for name, versions in self._groups().items():
            if bool(name) is core:
                continue
            metadata: dict[str, Any] = {"name": name} if name else {}
            metadata["creationTimestamp"] = None
            items.append({"metadata": metadata, "versions": [_aggregate_version(*item) for item in versions.items()]})
        return {"kind": AGGREGATED, "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {}, "items": items}


def _aggregate_version(version: str, kinds: list[Kind]) -> dict[str, Any]:
    resources = []
    for kind in kinds:
        entry: dict[str, Any] = {
            "resource": kind.plural,
            "responseKind": _response_kind(kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "singularResource": kind.singular,
            "verbs": list(kind.verbs),
        }
        _add_names(kind, entry)
        if kind.subresources:
            entry["subresources"] = [
                {"subresource": sub.name, "responseKind": _response_kind(kind, sub), "verbs": list(sub.verbs)}
                for sub in kind.subresources
            ]
        resources.append(entry)
    return {"version": version, "resources": resources, "freshness": "Current"}


def _response_kind(kind: Kind, sub: Subresource | None = None) -> dict[str, str]:
    """Return the kind of an answer; a real server names the group of a built-in kind only if it is another one."""
    if sub is not None and sub.group:
        return {"group": sub.group, "version": sub.version, "kind": sub.kind}
    group, version = (kind.group, kind.version) if kind.custom is not None else ("", "")
    return {"group": group, "version": version, "kind": (sub.kind if sub is not None else "") or kind.kind}


def _aggregated_version(header: str) -> str:
    """Return the first requested version of aggregated discovery; "" if there is none."""
    for clause in header.split(","):
        values = dict(part.strip().partition("=")[::2] for part in clause.split(";") if "=" in part)
        if values.get("as") == AGGREGATED and values.get("v") in ("v2", "v2beta1"):
            return values["v"]
    return ""


def _resource(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    _add_names(kind, entry)
    if not kind.virtual:
        # By this hash clients detect that the storage version of a kind has changed.
        stored = f"{kind.group}/{kind.version}/{kind.kind}".encode()
        entry["storageVersionHash"] = base64.b64encode(hashlib.sha256(stored).digest()[:8]).decode()
    return entry


def _add_names(kind: Kind, entry: dict[str, Any]) -> None:
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)


def _subresource(kind: Kind, sub: Subresource) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": f"{kind.plural}/{sub.name}", "singularName": "", "namespaced": kind.namespaced}
    if sub.group:
        entry["group"], entry["version"] = sub.group, sub.version
    return {**entry, "kind": sub.kind or kind.kind, "verbs": list(sub.verbs)}
