"""The kinds that an API server serves, with all their names: one request for the core group, one for the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ctrlhost.errors import TransportError
from ctrlhost.transport.interface import DEFAULT_TIMEOUT, HttpRequest
from ctrlhost.transport.responses import decode_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost.transport.interface import Transport
    from ctrlhost.transport.steps import Steps

_LIST = "APIGroupDiscoveryList"
#: Both versions of the list: `v2` is of Kubernetes 1.30.
_ACCEPT = ",".join(f"application/json;g=apidiscovery.k8s.io;v={version};as={_LIST}" for version in ("v2", "v2beta1"))


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind in one version, as the API server serves it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    #: Such as `status` and `scale`.
    subresources: tuple[str, ...] = ()
    #: Whether the version is the one of its group that the server prefers for this kind.
    preferred: bool = True

    @property
    def api_version(self) -> str:
        """The group and version, as in objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


class _Kind(msgspec.Struct):
    kind: str = ""


class _Subresource(msgspec.Struct):
    subresource: str


class _Resource(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _Kind | None = None
    scope: str = "Namespaced"
    singular_resource: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[_Subresource, ...] = ()


class _Version(msgspec.Struct):
    version: str
    resources: tuple[_Resource, ...] = ()


class _Metadata(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    versions: tuple[_Version, ...] = ()


class _Groups(msgspec.Struct):
    kind: str = ""
    items: tuple[_Group, ...] = ()


def served_kinds(transport: Transport, timeout: float | None) -> Steps[list[ServedKind]]:
    """Return what the server serves; TransportError if it does not list it so, as before Kubernetes 1.27."""
    kinds: list[ServedKind] = []
    for path in ("/api", "/apis"):
        headers = {"Accept": f"{_ACCEPT},application/json"}
        request = HttpRequest("GET", path, headers=headers, timeout=DEFAULT_TIMEOUT if timeout is None else timeout)
        answer = decode_object((yield from transport.steps(request)), request.what)
        try:
            groups = msgspec.convert(answer, _Groups)
        except msgspec.ValidationError as error:
            raise TransportError(f"{request.what}: the response is not a list of kinds: {error}") from error
        if groups.kind != _LIST:
            raise TransportError(f"{request.what}: the server does not list its kinds; Kubernetes 1.27 does")
        for group in groups.items:
            kinds.extend(_kinds_of(group))
    return kinds


def _kinds_of(group: _Group) -> Iterator[ServedKind]:
    known: set[str] = set()
    for version in group.versions:
        for resource in version.resources:
            # Only the subresources of some resources are served.
            if resource.response_kind is None or not resource.response_kind.kind:
                continue
            yield ServedKind(
                group=group.metadata.name,
                version=version.version,
                kind=resource.response_kind.kind,
                plural=resource.resource,
                namespaced=resource.scope == "Namespaced",
                singular=resource.singular_resource,
                short_names=resource.short_names,
                categories=resource.categories,
                verbs=resource.verbs,
                subresources=tuple(sub.subresource for sub in resource.subresources),
                preferred=resource.resource not in known,
            )
        known.update(resource.resource for resource in version.resources)
