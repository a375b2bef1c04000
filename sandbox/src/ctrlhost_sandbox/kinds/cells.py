"""Columns of tables, and cells that several kinds share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.durations import age

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object

NONE, UNSET = "<none>", "<unset>"
WORKLOAD = "Containers:w Images:w"
_TYPES = {"i": "integer", "d": "date", "b": "boolean"}


def definition(
    name: str, kind: str = "string", *, priority: int = 0, format_: str = "", text: str = ""
) -> dict[str, Any]:
    """Return a column's definition."""
    return {"name": name, "type": kind, "format": format_, "description": text, "priority": priority}


def heads(columns: str) -> list[dict[str, Any]]:
    """Return the definitions of columns.

    Each is a name with a flag: `:i` integer, `:d` date, `:b` boolean, `:n` a name, `:w` wide tables only.

    A `_` is a space.
    """
    definitions = []
    for column in columns.split():
        name, _, flag = column.partition(":")
        priority, format_ = (1 if flag == "w" else 0), ("name" if flag == "n" else "")
        definitions.append(
            definition(name.replace("_", " "), _TYPES.get(flag, "string"), priority=priority, format_=format_)
        )
    return definitions


def created(obj: Object) -> str:
    """Return an object's age."""
    return age(obj["metadata"].get("creationTimestamp"))


def images(obj: Object) -> tuple[str, str]:
    """Return the names and images of a workload's containers."""
    containers = (((obj.get("spec") or {}).get("template") or {}).get("spec") or {}).get("containers") or ()
    return ",".join(item["name"] for item in containers), ",".join(item.get("image", "") for item in containers)


def labels(selector: Any) -> str:
    """Format a map of labels."""
    return ",".join(f"{key}={value}" for key, value in sorted((selector or {}).items())) or NONE


def first(items: list[str], nothing: str) -> str:
    """Format the first three items, and the number of others."""
    text = ",".join(items[:3]) or nothing
    return text + (f" + {len(items) - 3} more..." if len(items) > 3 else "")
