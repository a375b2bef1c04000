"""The texts below the fields of classes, which Python does not keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast


def docstrings(struct: type) -> dict[str, str]:
    """Return the texts below the fields of a class by the names of the fields; empty if its source is not there."""
    # Only descriptions need these, so that a host does not import them.
    import ast

    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        # To find the source of a class, its whole module is parsed.
        if not vars(base).get("__annotations__"):
            continue
        try:
            node = _parsed(base)
        except SystemError:
            # The collector ran something in between that parses too, such as a logged traceback (gh-106905).
            node = _parsed(base)
        if not isinstance(node, ast.ClassDef):
            continue
        for field, text in zip(node.body, node.body[1:], strict=False):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            if (
                isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                docs[field.target.id] = " ".join(text.value.value.split())
    return docs


def _parsed(struct: type) -> ast.stmt | None:
    """Return the statement that defines a class; None if its source is not there."""
    import ast
    import inspect
    import textwrap

    try:
        return ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
