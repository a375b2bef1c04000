"""The rights of an operator: the kinds of its handlers, and hints of what its own clients need, from its source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctrlhost_kopf.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctrlhost_kopf.plugin import Operator
    from ctrlhost_kopf.registry import Selector

#: The methods of the official clients: verb and kind.
_METHOD = re.compile(
    r"(create|read|get|list|patch|replace|delete|delete_collection|connect_\w+)"
    r"_(?:namespaced_|cluster_)?(\w+?)(_for_all_namespaces|_status|_scale)?"
)
_VERBS = {"read": "get", "replace": "update", "delete_collection": "deletecollection"}
_OFFICIAL = frozenset({"kubernetes", "kubernetes_asyncio"})
_OTHERS = frozenset({"pykube", "kr8s", "easykube", "lightkube"})


def plurals_of(selector: Selector) -> list[str]:
    """Return the plurals that a selector may mean: without a server, `pod` can be one. `*` for several kinds."""
    if not isinstance(selector.name, str) or selector.which in ("category", "shortcut"):
        return ["*"]
    name = selector.name.lower()
    if selector.which == "plural" or re.search("[^s]s$", name):
        return [name]
    may_be_plural = selector.which is None and selector.name == name
    return [name, _plural(name)] if may_be_plural else [_plural(name)]


def _plural(name: str) -> str:
    """Return the plural of the name of a kind."""
    if re.search("[^aeiou]y$", name):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "z", "ch", "sh")) else f"{name}s"


def notes(operator: Operator) -> list[str]:
    """Return a line for each kind of request that the operator's own clients make, as far as the source shows it."""
    requests: dict[str, str] = {}
    for path in operator.sources:
        for line, request in _requests(path) if operator.libraries & _OFFICIAL else ():
            requests.setdefault(request, f"{path.name}:{line}")
    lines = [f"{operator.name}: add the right to {request} ({place})" for request, place in requests.items()]
    if libraries := sorted(operator.libraries & _OTHERS):
        lines.append(f"{operator.name}: add the rights that it needs for its requests with {' and '.join(libraries)}")
    if operator.registry.webhooks:
        lines.append(f"{operator.name}: its webhooks are not among the manifests: their kinds are not known here")
    return lines


def _requests(path: Path) -> Iterator[tuple[int, str]]:
    for function, node in Source(path).calls:
        if (call := _METHOD.fullmatch(function.attr)) is None:
            continue
        verb, kind, suffix = call.groups()
        if kind == "custom_object":
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            texts = [getattr(named.get(part), "value", None) for part in ("plural", "group")]
            resource = ".".join(text for text in texts if isinstance(text, str)) or "custom objects"
        else:
            resource = _plural(kind.replace("_", ""))
        subresource = (suffix or "").removesuffix("_for_all_namespaces").replace("_", "/")
        yield node.lineno, f"{_VERBS.get(verb, verb)} {resource}{subresource}"
