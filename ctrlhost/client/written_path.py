"""The object that the path of a write names."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

#: Subresources of a Namespace, whose path looks like that of a resource in it.
_OF_NAMESPACE = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class WrittenPath:
    """The parts of the path of an object or a collection; empty texts for those that it lacks."""

    #: As the path begins: `/api/v1` or `/apis/GROUP/VERSION`.
    group_version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def api_version(self) -> str:
        """The group and version, as in objects."""
        return self.group_version.split("/", 2)[2]

    @property
    def template(self) -> str:
        """The path as OpenAPI documents have it."""
        namespaced = ["namespaces", "{namespace}"] if self.namespace else []
        parts = [*namespaced, self.plural, "{name}" if self.name else "", self.subresource]
        return "/".join([self.group_version, *filter(None, parts)])

    @property
    def secret(self) -> bool:
        """Whether the object is a Secret."""
        return (self.group_version, self.plural) == ("/api/v1", "secrets")

    @property
    def whole(self) -> bool:
        """Whether the answer to a write is the object itself, not one of the subresource's own kind."""
        return self.subresource in ("", "status")

    def __str__(self) -> str:
        """Return the namespace and the name."""
        return "/".join(filter(None, (self.namespace, self.name)))


def parse(path: str) -> WrittenPath | None:
    """Return the parts of a path; None if it is not that of a resource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    size = {"api": 2, "apis": 3}.get(parts[0], 0)
    if not size or len(parts) <= size:
        return None
    group_version, rest = "/" + "/".join(parts[:size]), parts[size:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and (size == 3 or rest[2] not in _OF_NAMESPACE):
        namespace, rest = rest[1], rest[2:]
    plural, name, *subresource = (*rest, "")[: max(len(rest), 2)]
    return WrittenPath(group_version, plural, namespace, name, "/".join(subresource))
