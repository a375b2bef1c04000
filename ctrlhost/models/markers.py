"""What the annotations of a model's fields say about its CRD besides their types and `msgspec.Meta`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec

#: A number or a text, such as the port of a Service.
IntOrString: TypeAlias = int | str

#: An amount with Kubernetes' suffixes, such as `"100m"`, `"1Gi"` or 2; the server checks its form, as msgspec does.
Quantity: TypeAlias = (
    int
    | Annotated[
        str,
        msgspec.Meta(
            pattern=r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]"
            r"|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
        ),
    ]
)


@dataclass(frozen=True, slots=True, init=False)
class ListMap:
    """Marks a list whose items are identified by these fields: `Annotated[list[Port], ctrlhost.ListMap("name")]`.

    Server-side apply then merges the lists of several managers item by item. TypeError without a field, ValueError for
    one that is given twice.
    """

    keys: tuple[str, ...]

    def __init__(self, key: str, *keys: str) -> None:
        """Set the names of the fields; ValueError for a name that is given twice."""
        keys = (key, *keys)
        if len(set(keys)) < len(keys):
            raise ValueError(f"ListMap has a field twice: {', '.join(keys)}")
        object.__setattr__(self, "keys", keys)


@dataclass(frozen=True, slots=True)
class Rule:
    """A validation rule in CEL: `Annotated[Spec, ctrlhost.Rule("self.min <= self.max", message="min is above max")]`.

    The server evaluates it, msgspec does not. `message` None: the server's own message.
    """

    rule: str
    _: KW_ONLY
    message: str | None = None


ColumnType: TypeAlias = Literal["boolean", "date", "integer", "number", "string"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; `json_path` begins with a dot. ValueError if it does not, and for another type.

    One with a `priority` above 0 shows only in `kubectl get -o wide`. `format` is one of OpenAPI, such as `int32`.
    """

    name: str
    json_path: str
    type: ColumnType = "string"
    priority: int = 0
    format: str | None = None

    def __post_init__(self) -> None:
        """Reject what the server would refuse."""
        if self.type not in get_args(ColumnType):
            raise ValueError(f"the type of column {self.name!r} must be {' or '.join(get_args(ColumnType))}")
        if not self.json_path.startswith("."):
            raise ValueError(f"the path of column {self.name!r} must begin with a dot, got {self.json_path!r}")
