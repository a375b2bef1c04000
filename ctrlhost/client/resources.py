"""Resolve kinds to URLs, from the built-in table, loaded CRDs, or discovery."""

from __future__ import annotations

import difflib
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from ctrlhost.client.builtin_kinds import builtin_plural, builtin_versions
from ctrlhost.client.steps import Send, Steps
from ctrlhost.errors import NotFound, TransportError
from ctrlhost.transport.responses import decode_object
from ctrlhost.typed_json import prepare

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost.transport.interface import Transport

_PLAIN = re.compile(r"[a-zA-Z0-9._~-]+").fullmatch
_USUAL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = _USUAL_VERBS

    @property
    def api_version(self) -> str:
        """The group and version, as in objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """The plural with its group, as in messages of `kubectl` and RBAC."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path: no namespace means all, no name the collection. ValueError for invalid names."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", segment(namespace, "namespace")]
        parts.append(self.plural)
        if name is not None:
            parts.append(segment(name, "name"))
        if subresource:
            parts += [segment(part, "subresource") for part in subresource.split("/")]
        return "/" + "/".join(parts)


def segment(text: str, what: str) -> str:
    """Percent-encode one segment of a path; ValueError for `.` and `..`, which encoding does not neutralize."""
    if text in ("", ".", ".."):
        raise ValueError(f"invalid {what} {text!r}: cannot be part of a URL")
    return text if _PLAIN(text) else quote(text, safe="")


class _ApiResource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] = []


prepare(_ApiResourceList)


class Resources:
    """The known kinds of one API server. Safe to use from any thread."""

    def __init__(self, transport: Transport) -> None:
        """Start with the built-in kinds; others are discovered on demand."""
        self._transport = transport
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, str], Resource] = {}
        self._expected: dict[tuple[str, str], Resource] = {}
        self._discovered: dict[str, dict[str, Resource]] = {}
        self._forgotten: dict[tuple[str, str], Resource] = {}

    def add_crds(self, crds: Iterable[Mapping[str, Any]]) -> None:
        """Add the kinds of CustomResourceDefinitions, so that they need no discovery."""
        found = _resources_of(crds)
        with self._lock:
            self._loaded.update(found)

    def expect(self, crds: Iterable[Mapping[str, Any]]) -> None:
        """Add kinds of CustomResourceDefinitions, for `known` only: the server may not have them."""
        found = _resources_of(crds)
        with self._lock:
            self._expected.update(found)

    def known(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind without a request, None if unknown; the server may not serve it (yet)."""
        with self._lock:
            return self._served(api_version, kind) or self._expected.get((api_version, kind))

    def last_known(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource as `known` does, or as the server last served it."""
        with self._lock:
            key = (api_version, kind)
            return self._served(api_version, kind) or self._expected.get(key) or self._forgotten.get(key)

    def _served(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource if it was loaded or discovered. The caller holds the lock."""
        builtin = builtin_plural(api_version, kind)
        group, _, version = api_version.rpartition("/")
        if builtin is not None:
            return Resource(group, version, builtin[0], kind, builtin[1])
        return self._loaded.get((api_version, kind)) or self._discovered.get(api_version, {}).get(kind)

    def find(
        self, api_version: str, kind: str, *, timeout: float | None = None, transport: Transport | None = None
    ) -> Steps[Resource]:
        """Return the resource of a kind; NotFound if the server does not serve it (the next call asks it again).

        `transport` asks the server, if it is given, in place of the usual one.
        """
        with self._lock:
            known = self._served(api_version, kind)
        if known is not None:
            return known
        discovered = yield from self._discover(api_version, timeout, transport or self._transport)
        with self._lock:
            self._discovered[api_version] = discovered
        if kind not in discovered:
            hint = "is its CustomResourceDefinition installed? `--install-crds` installs those of the plugins"
            if near := _nearest(api_version, kind, discovered):
                raise NotFound(f"no kind `{kind}` in {api_version}; did you mean {near}?", hint=hint)
            raise NotFound(f"the server does not serve kind {kind} in {api_version}", hint=hint)
        return discovered[kind]

    def forget(self, api_version: str, kind: str) -> None:
        """Drop a discovered kind, for example after its CRD was removed; the next `find` asks the server again."""
        with self._lock:
            if kind in self._discovered.get(api_version, {}):
                self._forgotten[api_version, kind] = self._discovered.pop(api_version)[kind]

    def _discover(self, api_version: str, timeout: float | None, transport: Transport) -> Steps[dict[str, Resource]]:
        group, _, version = api_version.rpartition("/")
        parts = ["apis", group, version] if group else ["api", version]
        path = "".join(f"/{segment(part, 'apiVersion')}" for part in parts)
        what = f"GET {path}"
        try:
            answer = decode_object((yield Send(transport, "GET", path, timeout=timeout)), what)
        except NotFound:
            return {}
        try:
            listed = msgspec.convert(answer, _ApiResourceList)
        except msgspec.ValidationError as error:
            raise TransportError(f"{what}: the response is not a list of resources: {error}") from error
        return {
            each.kind: Resource(group, version, each.name, each.kind, each.namespaced, each.verbs)
            for each in listed.resources
            if "/" not in each.name
        }


def _nearest(api_version: str, kind: str, served: Iterable[str]) -> str | None:
    """Return the served kind of a similar name, or the version in which Kubernetes has the kind; None without one."""
    if close := difflib.get_close_matches(kind, sorted(served), n=1):
        return f"`{close[0]}`"
    found = difflib.get_close_matches(api_version, sorted(builtin_versions(kind)), n=1, cutoff=0.5)
    return f"`{kind}` in {found[0]}" if found else None


def _resources_of(crds: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Resource]:
    found = {}
    for crd in crds:
        spec = crd["spec"]
        names, namespaced = spec["names"], spec["scope"] == "Namespaced"
        for version in spec["versions"]:
            resource = Resource(spec["group"], version["name"], names["plural"], names["kind"], namespaced)
            found[resource.api_version, resource.kind] = resource
    return found
