"""From a kind to the URL that serves it: the built-in table, the CRDs that were loaded, else discovery."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.errors import ApiError, NotFound, TransportError
from ctrlhost.transport.responses import decode_object
from ctrlhost.typed_json import learn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost.transport.interface import Transport

_PLAIN = re.compile(r"[a-zA-Z0-9._~-]+").fullmatch
USUAL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = USUAL_VERBS

    @property
    def api_version(self) -> str:
        """The group and version as objects write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """The plural with its group, as `kubectl` and RBAC messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Give the path: no namespace means all, no name the collection. ValueError for names that no URL can hold."""
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
    """Percent-encode one segment of a path; `.` and `..` would lead elsewhere whatever the encoding."""
    if text in ("", ".", ".."):
        raise ValueError(f"{what} {text!r} can not stand in a URL")
    return text if _PLAIN(text) else quote(text, safe="")


class _ApiResource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] = []


learn(_ApiResourceList)


class Resources:
    """The kinds that one API server serves, as far as anybody asked. Safe to use from any thread."""

    def __init__(self, transport: Transport) -> None:
        """Know the built-in kinds; the rest is looked up when asked for."""
        self._transport = transport
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, str], Resource] = {}
        self._expected: dict[tuple[str, str], Resource] = {}
        self._discovered: dict[str, dict[str, Resource]] = {}
        self._forgotten: dict[tuple[str, str], Resource] = {}

    def add_crds(self, crds: Iterable[Mapping[str, Any]]) -> None:
        """Learn the kinds of CustomResourceDefinitions, so that they need no discovery."""
        found = _resources_of(crds)
        with self._lock:
            self._loaded.update(found)

    def expect(self, crds: Iterable[Mapping[str, Any]]) -> None:
        """Learn for `known` what CustomResourceDefinitions define that the server need not have."""
        found = _resources_of(crds)
        with self._lock:
            self._expected.update(found)

    def known(self, api_version: str, kind: str) -> Resource | None:
        """Give the resource of a kind as far as it is known without asking the server, which may not serve it (yet)."""
        found = self._served(api_version, kind)
        if found is None:
            with self._lock:
                found = self._expected.get((api_version, kind))
        return found

    def last_known(self, api_version: str, kind: str) -> Resource | None:
        """Give the resource as `known` does, or as it was when the server last served it."""
        found = self.known(api_version, kind)
        if found is None:
            with self._lock:
                found = self._forgotten.get((api_version, kind))
        return found

    def _served(self, api_version: str, kind: str) -> Resource | None:
        builtin = builtin_plural(api_version, kind)
        group, _, version = api_version.rpartition("/")
        if builtin is not None:
            return Resource(group, version, builtin[0], kind, builtin[1])
        with self._lock:
            return self._loaded.get((api_version, kind)) or self._discovered.get(api_version, {}).get(kind)

    def get(self, api_version: str, kind: str, *, timeout: float | None = None) -> Resource:
        """Give the resource of a kind; NotFound if the server does not serve it (now: it is asked again next time)."""
        known = self._served(api_version, kind)
        if known is not None:
            return known
        discovered = self._discover(api_version, timeout)
        with self._lock:
            self._discovered[api_version] = discovered
        if kind not in discovered:
            raise _unknown(api_version, kind)
        return discovered[kind]

    def forget(self, api_version: str, kind: str) -> None:
        """Ask the server again next time: what was discovered turned out to be wrong, as after a CRD was removed."""
        with self._lock:
            if kind in self._discovered.get(api_version, {}):
                self._forgotten[api_version, kind] = self._discovered.pop(api_version)[kind]

    def _discover(self, api_version: str, timeout: float | None) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        parts = ["apis", *map(_encoded, (group, version))] if group else ["api", _encoded(version)]
        path = "/" + "/".join(parts)
        what = f"GET {path}"
        try:
            answer = decode_object(self._transport.request("GET", path, timeout=timeout), what)
        except NotFound:
            return {}
        try:
            listed = msgspec.convert(answer, _ApiResourceList)
        except msgspec.ValidationError as error:
            raise TransportError(f"{what}: the answer is no list of resources: {error}") from error
        return {
            each.kind: Resource(group, version, each.name, each.kind, each.namespaced, tuple(each.verbs))
            for each in listed.resources
            if "/" not in each.name
        }


def _resources_of(crds: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Resource]:
    found = {}
    for crd in crds:
        spec = crd["spec"]
        names, namespaced = spec["names"], spec["scope"] == "Namespaced"
        for version in spec["versions"]:
            resource = Resource(spec["group"], version["name"], names["plural"], names["kind"], namespaced)
            found[resource.api_version, resource.kind] = resource
    return found


def _encoded(text: str) -> str:
    return segment(text, "apiVersion")


def _unknown(api_version: str, kind: str) -> ApiError:
    return NotFound(
        f"the server has no kind {kind} in {api_version}",
        hint=f"is the CustomResourceDefinition of {kind} installed? `--install-crds` installs those of the plugins",
    )
