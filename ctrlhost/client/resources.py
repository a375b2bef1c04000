"""Resolve kinds to URLs, from the built-in table, loaded CRDs, or discovery."""

from __future__ import annotations

import functools
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from ctrlhost.client.builtin_kinds import BUILTIN_KINDS, builtin_elsewhere, builtin_kind, spelt
from ctrlhost.duration import in_seconds
from ctrlhost.errors import CtrlhostError, NotFound, TransportError, UnknownKind
from ctrlhost.suggestions import did_you_mean
from ctrlhost.transport.interface import DEFAULT_TIMEOUT, HttpRequest
from ctrlhost.transport.responses import decode_object
from ctrlhost.typed_json import prepare

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctrlhost.duration import DurationLike
    from ctrlhost.transport.interface import Transport
    from ctrlhost.transport.steps import Steps

_PLAIN = re.compile(r"[a-zA-Z0-9._~-]+").fullmatch
_HINT = "is its CustomResourceDefinition installed? `--install-crds` installs those of the plugins"
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


#: The built-in kinds, by apiVersion and kind.
_BUILTIN = {
    (version, kind): Resource(*version.rpartition("/")[::2], plural, kind, namespaced)
    for version, kinds in BUILTIN_KINDS.items()
    for kind, (plural, namespaced) in kinds.items()
}


@functools.lru_cache(maxsize=1024)
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


class _Version(msgspec.Struct):
    version: str


class _ApiGroup(msgspec.Struct):
    name: str
    versions: list[_Version] = []


class _ApiGroupList(msgspec.Struct):
    groups: list[_ApiGroup] = []


prepare(_ApiResourceList)
prepare(_ApiGroupList)


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
        resources = _resources_of(crds)
        with self._lock:
            self._loaded.update(resources)

    def expect(self, crds: Iterable[Mapping[str, Any]]) -> None:
        """Add kinds of CustomResourceDefinitions, for `known` only: the server may not have them."""
        resources = _resources_of(crds)
        with self._lock:
            self._expected.update(resources)

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
        known = _BUILTIN.get((api_version, kind)) or self._loaded.get((api_version, kind))
        return known or self._discovered.get(api_version, {}).get(kind)

    def find(
        self, api_version: str, kind: str, *, timeout: DurationLike | None = None, transport: Transport | None = None
    ) -> Steps[Resource]:
        """Return the resource of a kind; UnknownKind if the server does not serve it (the next call asks it again).

        `transport` asks the server, if it is given, in place of the usual one.
        """
        with self._lock:
            known = self._served(api_version, kind)
        if known is not None:
            return known
        transport = transport or self._transport
        discovered = yield from _discover(api_version, timeout, transport)
        with self._lock:
            self._discovered[api_version] = discovered or {}
        if discovered is not None and kind in discovered:
            return discovered[kind]
        if discovered is None:
            groups = yield from _served_groups(timeout, transport)
            problem = _unserved_version(api_version, kind, groups)
        else:
            near = _near(api_version, kind, discovered)
            problem = f"no kind `{kind}` in {api_version}; {near}" if near else None
        raise UnknownKind(problem or f"the server does not serve kind {kind} in {api_version}", hint=_hint(api_version))

    def of_plural(self, api_version: str, plural: str, *, transport: Transport | None = None) -> Steps[Resource]:
        """Return the resource that a URL names; UnknownKind if the server does not serve it."""
        builtin = builtin_kind(api_version, plural)
        if builtin is not None:
            return (yield from self.find(api_version, builtin[0], transport=transport))
        with self._lock:
            loaded = [resource for resource in self._loaded.values() if resource.api_version == api_version]
            known = [*loaded, *self._discovered.get(api_version, {}).values()]
        discovered: Mapping[str, Resource] = {}
        if not any(resource.plural == plural for resource in known):
            discovered = (yield from _discover(api_version, None, transport or self._transport)) or {}
            with self._lock:
                self._discovered[api_version] = dict(discovered)
        for resource in (*known, *discovered.values()):
            if resource.plural == plural:
                return resource
        raise UnknownKind(f"the server does not serve `{plural}` in {api_version}", hint=_hint(api_version))

    def forget(self, api_version: str, kind: str) -> bool:
        """Drop a custom kind, for example after its CRD was removed; the next `find` asks the server again.

        Return whether it was known.
        """
        with self._lock:
            discovered = self._discovered.get(api_version, {})
            resource = self._loaded.pop((api_version, kind), None) or discovered.get(kind)
            if resource is None:
                return False
            self._discovered.pop(api_version, None)
            self._forgotten[api_version, kind] = resource
            return True


def _hint(api_version: str) -> str:
    """Return the hint of a kind that is not served; no CRD serves the groups of Kubernetes itself."""
    group = api_version.rpartition("/")[0]
    builtin = {known_version.rpartition("/")[0] for known_version in BUILTIN_KINDS}
    return _HINT if "." in group and group not in builtin else "`kubectl api-resources` lists the kinds of the server"


def _read(path: str, timeout: DurationLike | None, transport: Transport) -> Steps[Any]:
    request = HttpRequest("GET", path, timeout=DEFAULT_TIMEOUT if timeout is None else in_seconds(timeout))
    return decode_object((yield from transport.steps(request)), request.what)


def _discover(
    api_version: str, timeout: DurationLike | None, transport: Transport
) -> Steps[dict[str, Resource] | None]:
    """Return the kinds of a group and version; None if the server does not serve these at all."""
    group, _, version = api_version.rpartition("/")
    parts = ["apis", group, version] if group else ["api", version]
    path = "".join(f"/{segment(part, 'apiVersion')}" for part in parts)
    what = f"GET {path}"
    try:
        answer = yield from _read(path, timeout, transport)
    except NotFound:
        return None
    try:
        listed = msgspec.convert(answer, _ApiResourceList)
    except msgspec.ValidationError as error:
        raise TransportError(f"{what}: the response is not a list of resources: {error}") from error
    return {
        resource.kind: Resource(group, version, resource.name, resource.kind, resource.namespaced, resource.verbs)
        for resource in listed.resources
        if "/" not in resource.name
    }


def _served_groups(timeout: DurationLike | None, transport: Transport) -> Steps[dict[str, list[str]]]:
    """Return the versions of each group, for a message; none if the server does not answer."""
    try:
        listed = msgspec.convert((yield from _read("/apis", timeout, transport)), _ApiGroupList)
    except (CtrlhostError, msgspec.ValidationError):
        return {}
    return {"": ["v1"], **{group.name: [version.version for version in group.versions] for group in listed.groups}}


def _unserved_version(api_version: str, kind: str, groups: Mapping[str, Sequence[str]]) -> str | None:
    """Return what the server has in place of a group and version; None if nothing is alike."""
    group = api_version.rpartition("/")[0]
    if versions := groups.get(group):
        named = group or "the core group"
        return f"{api_version} is not served; {named} has {', '.join(versions)}"
    if near := builtin_elsewhere(api_version, kind):
        return f"no kind `{kind}` in {api_version}; {near}"
    # Groups of one domain are alike anyway.
    near = did_you_mean(group, [name for name in groups if name], least=0.85)
    return f"{api_version} is not served; {near}" if near else None


def _near(api_version: str, kind: str, discovered: Mapping[str, Resource]) -> str | None:
    """Return the question for the kind that was meant; None unless one is alike."""
    known = spelt(kind, {name: (resource.plural, resource.namespaced) for name, resource in discovered.items()})
    if known is not None:
        return f"did you mean `{known}`?"
    return builtin_elsewhere(api_version, kind) or did_you_mean(kind, discovered)


def _resources_of(crds: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Resource]:
    resources = {}
    for crd in crds:
        spec = crd["spec"]
        names, namespaced = spec["names"], spec["scope"] == "Namespaced"
        for version in spec["versions"]:
            resource = Resource(spec["group"], version["name"], names["plural"], names["kind"], namespaced)
            resources[resource.api_version, resource.kind] = resource
    return resources
