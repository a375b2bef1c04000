"""What a request is about, read off its line: what authorization decides on and the audit log tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.sandbox.messages import Query

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: Of a namespace's own sub-resources; anything else behind `namespaces/x/` is a resource in that namespace.
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
READ_VERBS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource, or on a path: then `resource` is empty and the verb is the method in lower case."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """Name the resource as rules do: `pods`, `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def read(method: str, parts: list[str], query: Query) -> Attributes:
    """Tell what a method on a path, split and unquoted, asks for."""
    path = "/" + "/".join(parts)
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        rest = []
    if len(rest) < 2:
        return Attributes(method.lower(), path)
    version, *rest = rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS.get(method, method.lower())
    if not name and verb == "get":
        verb = "watch" if query.flag("watch") else "list"
        name = _named(query)
    elif not name and verb == "delete":
        verb = "deletecollection"
        name = _named(query)
    return Attributes(verb, path, group, version, resource, subresource, namespace, name)


def _named(query: Query) -> str:
    """Give the one name that a field selector leaves: rules may be limited to names."""
    for term in query.first("fieldSelector").split(","):
        key, _, value = term.partition("=")
        if key.strip() == "metadata.name" and value:
            return value.removeprefix("=").strip()
    return ""
