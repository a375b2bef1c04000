"""The rights that the clients of an operator need beyond those of its handlers: hints, read from its source."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_kopf.plugin import Operator

#: The methods of the official clients: verb and kind.
_METHOD = re.compile(
    r"(create|read|get|list|patch|replace|delete|delete_collection|connect_\w+)"
    r"_(?:namespaced_|cluster_)?(\w+?)(_for_all_namespaces|_status|_scale)?"
)
_VERBS = {"read": "get", "replace": "update", "delete_collection": "deletecollection"}
_OFFICIAL = frozenset({"kubernetes", "kubernetes_asyncio"})
_OTHERS = frozenset({"pykube", "kr8s", "easykube", "lightkube"})


def notes(operator: Operator) -> list[str]:
    """Return a line for each kind of request that the operator's own clients make, as far as the source shows it."""
    requests: dict[str, str] = {}
    for path in operator.sources:
        for line, request in _requests(ast.parse(path.read_bytes()), operator.libraries):
            requests.setdefault(request, f"{path.name}:{line}")
    lines = [f"{operator.name}: add the right to {request} ({place})" for request, place in requests.items()]
    if libraries := sorted(operator.libraries & _OTHERS):
        lines.append(f"{operator.name}: add the rights that it needs for its requests with {' and '.join(libraries)}")
    if operator.registry.webhooks:
        lines.append(f"{operator.name}: its webhooks are not among the manifests: their kinds are not known here")
    return lines


def _requests(tree: ast.AST, libraries: set[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree) if libraries & _OFFICIAL else ():
        function = node.func if isinstance(node, ast.Call) else node
        name = function.attr if isinstance(function, ast.Attribute) else ""
        if not isinstance(node, ast.Call) or (call := _METHOD.fullmatch(name)) is None:
            continue
        verb, kind, suffix = call.groups()
        if kind == "custom_object":
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            texts = [getattr(named.get(part), "value", None) for part in ("plural", "group")]
            resource = ".".join(text for text in texts if isinstance(text, str)) or "custom objects"
        else:
            resource = kind.replace("_", "") + ("es" if kind.endswith(("s", "x")) else "s")
        subresource = (suffix or "").removesuffix("_for_all_namespaces").replace("_", "/")
        yield node.lineno, f"{_VERBS.get(verb, verb)} {resource}{subresource}"
