"""Conversion of objects to tables, and to metadata only."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery.durations import age
from ctrlhost_sandbox.apimachinery.json_path import find, parse
from ctrlhost_sandbox.apimachinery.status import bad_request
from ctrlhost_sandbox.kinds import strategy_of
from ctrlhost_sandbox.kinds.cells import definition, heads
from ctrlhost_sandbox.registry import views

if TYPE_CHECKING:
    from ctrlhost_sandbox.encoding.negotiation import Accepted
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.verbs import reads

_NAME = definition("Name", format_="name", text="the object's name, unique within its namespace")
_DESCRIPTION = "Custom resource definition column (in JSONPath format)"
_AGE_COLUMN = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "CreationTimestamp is a timestamp: when the server stored the object.",
}


def partial(obj: Any, version: str) -> dict[str, Any]:
    """Return an object's metadata as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


class Tabulator:
    """Converts objects of one kind to tables."""

    def __init__(self, operation: Operation, version: str) -> None:
        """Read what rows include; 400 for an invalid choice."""
        kind = operation.kind
        self._version = version
        self._include = operation.query.first("includeObject") or "Metadata"
        if self._include not in ("None", "Metadata", "Object"):
            raise bad_request(f"unrecognized includeObject value: {self._include!r}")
        self._custom = None
        if kind.custom is not None and operation.subresource != "scale":
            # A path that cannot be parsed ends the columns, as in a real server.
            valid = itertools.takewhile(lambda column: parse(column["jsonPath"]) is not None, kind.custom.columns)
            self._custom = tuple(valid) if kind.custom.columns else (_AGE_COLUMN,)
            columns = [
                definition(
                    column["name"],
                    column["type"],
                    priority=int(column.get("priority", 0)),
                    format_=column.get("format", ""),
                    text=column.get("description") or f"{_DESCRIPTION}: {column['jsonPath']}",
                )
                for column in self._custom
            ]
        else:
            strategy = strategy_of(kind, operation.subresource)
            columns, self._cells, self._name = heads(strategy.columns), strategy.cells, strategy.name
        # An event's name is the last column.
        self._named_last = kind.table == "events"
        self.definitions = columns if self._named_last else [_NAME, *columns]

    def row(self, obj: Any) -> dict[str, Any]:
        """Return an object's row."""
        if self._custom is not None:
            cells, name = [_custom_cell(column, obj) for column in self._custom], obj["metadata"]["name"]
        else:
            cells, name = list(self._cells(obj)), self._name(obj)
        row: dict[str, Any] = {"cells": cells if self._named_last else [name, *cells]}
        phase = (obj.get("status") or {}).get("phase") if obj.get("kind") == "Pod" else None
        if phase in ("Succeeded", "Failed"):
            text = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": text}]
        if self._include == "Metadata":
            obj = partial(obj, self._version)
        row["object"] = None if self._include == "None" else obj
        return row

    def table(self, rows: list[dict[str, Any]], metadata: dict[str, Any], *, with_heads: bool = True) -> bytes:
        """Return a table of rows."""
        body: dict[str, Any] = {"kind": "Table", "apiVersion": f"meta.k8s.io/{self._version}", "metadata": metadata}
        body["columnDefinitions"] = self.definitions if with_heads else None
        body["rows"] = rows
        return msgspec.json.encode(body)


def _custom_cell(column: Any, obj: Any) -> Any:
    value = find(obj, column["jsonPath"])
    if value is None:
        return None
    kind = column["type"]
    if kind == "date":
        return age(value)
    if kind == "string":
        return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if kind == "integer" else value


class Encoding:
    """The encoding of watched objects as tables or metadata."""

    def __init__(self, operation: Operation, accepted: Accepted) -> None:
        """Read the choice; 400 if it is invalid."""
        self._version = accepted.version
        self._tabulator = Tabulator(operation, accepted.version) if accepted.form == "Table" else None
        #: Encodings of the same name give the same bytes for an object of one kind.
        self.name = f"{accepted.form} {accepted.version} {operation.query.first('includeObject')}"
        #: Whether the first object of a watch differs from the others: it includes the columns' definitions.
        self.opens = self._tabulator is not None

    def present(self, raw: bytes, *, first: bool) -> bytes:
        """Encode an object or a bookmark."""
        obj = msgspec.json.decode(raw)
        tabulator = self._tabulator
        if tabulator is None:
            return views.encode(partial(obj, self._version))
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        if "uid" in obj["metadata"]:
            return tabulator.table([tabulator.row(obj)], metadata, with_heads=first)
        # A bookmark has only metadata, so its cells are empty.
        cells = [""] * len(tabulator.definitions)
        return tabulator.table([{"cells": cells, "object": partial(obj, self._version)}], metadata, with_heads=first)


def present_object(operation: Operation, accepted: Accepted, raw: bytes) -> bytes:
    """Convert one object to the requested form."""
    obj = msgspec.json.decode(raw)
    if accepted.form == "PartialObjectMetadata":
        return views.encode(partial(obj, accepted.version))
    if obj.get("kind") == "Status":
        return raw
    tabulator = Tabulator(operation, accepted.version)
    return tabulator.table([tabulator.row(obj)], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})


def present_list(operation: Operation, accepted: Accepted, page: reads.Page) -> bytes:
    """Convert a list to the requested form."""
    objects = [msgspec.json.decode(views.raw(operation.kind, item)) for item in page.items]
    if accepted.form == "Table":
        tabulator = Tabulator(operation, accepted.version)
        return tabulator.table(list(map(tabulator.row, objects)), page.metadata)
    items = [partial(obj, accepted.version) for obj in objects]
    head = {"kind": accepted.form, "apiVersion": f"meta.k8s.io/{accepted.version}", "metadata": page.metadata}
    return msgspec.json.encode({**head, "items": items})
