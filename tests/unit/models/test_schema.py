"""Structural schemas of structs."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar, Union
from uuid import UUID, uuid4

import msgspec
import pytest

import ctrlhost
from ctrlhost.models.schema import generate_schema

T = TypeVar("T")


class Mode(enum.Enum):
    FAST = "fast"
    SAFE = "safe"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """A port."""

    name: str
    number: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 80
    protocol: str = "TCP"


class Bare(msgspec.Struct, frozen=True):
    x: int | None = None


class Cat(msgspec.Struct, tag="cat", frozen=True):
    lives: int


class Pair(msgspec.Struct, Generic[T]):
    first: T
    rest: list[T] = []


class Node(msgspec.Struct):
    children: list[Node] = []


class ArrayLike(msgspec.Struct, array_like=True):
    x: int


class Keys(msgspec.Struct):
    null: str | None
    port: Port


class Misspelt(msgspec.Struct):
    at: datetime.noww  # type: ignore[name-defined]


Name = NewType("Name", str)

STRING = {"type": "string"}
PORT = {
    "description": "A port.",
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": STRING,
        "number": {"type": "integer", "minimum": 1, "maximum": 65535, "default": 80},
        "protocol": {"type": "string", "default": "TCP"},
    },
}
CAT = {
    "type": "object",
    "required": ["type", "lives"],
    "properties": {"type": {"type": "string", "enum": ["cat"]}, "lives": {"type": "integer"}},
}
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]"
    r"|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def property_of(kind: Any, *default: Any) -> tuple[dict[str, Any], bool]:
    """Return the schema of a field of this type, and whether it is required."""
    struct = msgspec.defstruct("Thing", [("field", kind, *default)])
    schema = generate_schema(struct)
    return schema["properties"]["field"], schema.get("required") == ["field"]


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, STRING),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (int | float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (bytes, {"type": "string", "format": "byte"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Name, STRING),
        (str | None, {"type": "string", "nullable": True}),
        (Any, {"x-kubernetes-preserve-unknown-fields": True}),
        (dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (dict, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[Name, str], {"type": "object", "additionalProperties": STRING}),
        (dict[str, str | None], {"type": "object", "additionalProperties": {"type": "string", "nullable": True}}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": STRING}),
        (tuple[str, ...], {"type": "array", "items": STRING}),
        (tuple[int, int], {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}),
        (list, {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}),
        (set[str], {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}),
        (frozenset[int], {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (
            Union[Literal["a"], Literal["b"]],  # noqa: PYI030, UP007 - the type to test
            {"type": "string", "enum": ["a", "b"]},
        ),
        (Literal["a"] | None, {"type": "string", "nullable": True, "allOf": [{"enum": ["a"]}]}),
        (Mode, {"type": "string", "enum": ["fast", "safe"]}),
        (Level, {"type": "integer", "enum": [1, 5]}),
        (Port, PORT),
        (Cat, CAT),
        (
            Pair[int],
            {
                "type": "object",
                "required": ["first"],
                "properties": {
                    "first": {"type": "integer"},
                    "rest": {"type": "array", "items": {"type": "integer"}, "default": []},
                },
            },
        ),
        (ctrlhost.IntOrString, {"x-kubernetes-int-or-string": True}),
        (ctrlhost.Quantity, {"x-kubernetes-int-or-string": True, "pattern": QUANTITY}),
        (ctrlhost.Quantity | None, {"x-kubernetes-int-or-string": True, "nullable": True, "pattern": QUANTITY}),
        (
            Annotated[int, msgspec.Meta(gt=0, lt=10, multiple_of=2)],
            {
                "type": "integer",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 10,
                "exclusiveMaximum": True,
                "multipleOf": 2,
            },
        ),
        (
            Annotated[str, msgspec.Meta(pattern="^a", min_length=1, max_length=9)],
            {"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 9},
        ),
        # In Base64.
        (
            Annotated[bytes, msgspec.Meta(min_length=1, max_length=10)],
            {"type": "string", "format": "byte", "minLength": 4, "maxLength": 16},
        ),
        (
            Annotated[list[str], msgspec.Meta(min_length=1, max_length=9)],
            {"type": "array", "items": STRING, "minItems": 1, "maxItems": 9},
        ),
        (
            Annotated[dict[str, str], msgspec.Meta(min_length=1, max_length=9)],
            {"type": "object", "additionalProperties": STRING, "minProperties": 1, "maxProperties": 9},
        ),
        (
            list[Annotated[str, msgspec.Meta(max_length=9)]],
            {"type": "array", "items": {"type": "string", "maxLength": 9}},
        ),
        (Annotated[int, msgspec.Meta(ge=1)] | None, {"type": "integer", "nullable": True, "minimum": 1}),
        (
            Annotated[str, msgspec.Meta(title="T", description="D", extra_json_schema={"format": "ipv4"})],
            {"type": "string", "title": "T", "description": "D", "format": "ipv4"},
        ),
        (
            Annotated[list[Port], ctrlhost.ListMap("name", "protocol")],
            {
                "type": "array",
                "items": PORT,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "protocol"],
            },
        ),
        (
            Annotated[Bare, ctrlhost.Rule("self.x > 1"), ctrlhost.Rule("true", message="No.")],
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.x > 1"}, {"rule": "true", "message": "No."}],
            },
        ),
    ],
)
def test_a_type_has_its_schema(kind, schema) -> None:
    actual, required = property_of(kind)
    assert (actual, required) == (schema, True)


@pytest.mark.parametrize(
    ("kind", "default", "schema"),
    [
        (int, 3, {"type": "integer", "default": 3}),
        (bool, False, {"type": "boolean", "default": False}),
        (str, "", {"type": "string", "default": ""}),
        (bytes, b"", {"type": "string", "format": "byte"}),
        (int | None, None, {"type": "integer"}),
        (int | msgspec.UnsetType, msgspec.UNSET, {"type": "integer"}),
        (int | None, 3, {"type": "integer", "default": 3}),
        (Literal["a"] | None, None, {"type": "string", "enum": ["a"]}),
        (Mode, Mode.FAST, {"type": "string", "enum": ["fast", "safe"], "default": "fast"}),
        (
            list[int],
            msgspec.field(default_factory=list),
            {"type": "array", "items": {"type": "integer"}, "default": []},
        ),
        (tuple[int, ...], (), {"type": "array", "items": {"type": "integer"}, "default": []}),
        (set[str], set(), {"type": "array", "items": STRING, "x-kubernetes-list-type": "set", "default": []}),
        (tuple[str, ...], ("a",), {"type": "array", "items": STRING, "default": ["a"]}),
        (
            dict[str, tuple[int, ...]],
            msgspec.field(default_factory=lambda: {"a": (1,)}),
            {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "integer"}},
                "default": {"a": [1]},
            },
        ),
        (
            list[int],
            msgspec.field(default_factory=lambda: [1]),
            {"type": "array", "items": {"type": "integer"}, "default": [1]},
        ),
        (
            set[str],
            msgspec.field(default_factory=lambda: set("badc")),
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "set", "default": ["a", "b", "c", "d"]},
        ),
        (dict[str, str], {}, {"type": "object", "additionalProperties": STRING, "default": {}}),
        (Bare, Bare(), {"type": "object", "properties": {"x": {"type": "integer"}}, "default": {}}),
        (Port, Port(name="http"), PORT | {"default": {"name": "http"}}),
        (Port, Port(name="http", number=8080), PORT | {"default": {"name": "http", "number": 8080}}),
        (Cat, Cat(9), CAT | {"default": {"type": "cat", "lives": 9}}),
    ],
)
def test_a_default_is_that_of_the_field_and_null_is_absent(kind, default, schema) -> None:
    actual, required = property_of(kind, default)
    assert (actual, required) == (schema, False)


def test_a_default_that_is_another_one_at_each_call_is_refused() -> None:
    with pytest.raises(ctrlhost.ConfigError, match=r"^Thing: field: its default is another one at each call"):
        property_of(UUID, msgspec.field(default_factory=uuid4))


def test_the_text_below_a_field_describes_it_rather_than_its_type() -> None:
    class Documented(msgspec.Struct):
        port: Port
        """The port
        of this one."""
        other: Port
        count: Annotated[int, msgspec.Meta(description="How many.")] = 1

    properties = generate_schema(Documented)["properties"]
    assert [properties[name]["description"] for name in ("port", "other", "count")] == [
        "The port of this one.",
        "A port.",
        "How many.",
    ]


def test_fields_are_named_as_on_the_wire() -> None:
    class Renamed(msgspec.Struct, rename="camel"):
        from_where: str = msgspec.field(name="from")
        pod_name: str

    schema = generate_schema(Renamed)
    assert list(schema["properties"]) == schema["required"] == ["from", "podName"]


def test_conditions_are_those_of_the_api_and_a_list_by_type() -> None:
    schema = generate_schema(ctrlhost.ModelStatus)["properties"]["conditions"]
    assert (schema["x-kubernetes-list-type"], schema["x-kubernetes-list-map-keys"]) == ("map", ["type"])
    items = schema["items"]
    assert set(items["properties"]) == {field.name for field in msgspec.structs.fields(ctrlhost.Condition)}
    assert items["properties"]["lastTransitionTime"] == {"type": "string", "format": "date-time"}
    assert items["properties"]["status"]["enum"] == ["True", "False", "Unknown"]


@pytest.mark.parametrize(
    ("kind", "path", "problem"),
    [
        (Port | Bare, "", "a union of structs: Port | Bare"),
        (list[dict[str, Port | Bare]], "[]{}", "a union of structs: Port | Bare"),
        (str | float, "", "a union of types: str | float"),
        (Port | str, "", "a union of types: Port | str"),
        (tuple[int, str], "", "the mixed tuple tuple[int, str]"),
        (Node, ".children[]", "the recursive struct Node"),
        (set[Port], "", "the items of a set must be"),
        (set[str | None], "", "the items of a set must be texts, numbers or booleans, not null"),
        (dict[int, str], "", "the keys of a map must be texts, got int"),
        (dict[Annotated[str, msgspec.Meta(max_length=9)], int], "", "the keys of a map must be texts, got Annotated"),
        (Literal[1, "a"], "", "the values of an enum must be"),
        (None, "", "only be null"),
        (timedelta, "", "no schema for the type timedelta"),
        (ArrayLike, "", "is an array on the wire"),
        (Misspelt, "", "cannot evaluate the annotations of Misspelt: type object 'datetime.datetime' has no attribute"),
        (Annotated[list[Port], ctrlhost.ListMap("id")], "", "ListMap('id'): the items have no field 'id'"),
        (Annotated[list[str], ctrlhost.ListMap("id")], "", "ListMap('id'): the items have no field 'id'"),
        (Annotated[list[Bare], ctrlhost.ListMap("x")], "", "'x' must be required, or have a default"),
        (Annotated[list[Keys], ctrlhost.ListMap("null")], "", "'null' must be a text, number or boolean, not null"),
        (Annotated[list[Keys], ctrlhost.ListMap("port")], "", "'port' must be a text, number or boolean, not null"),
        (Annotated[list[Port | None], ctrlhost.ListMap("name")], "", "the items of a list with ListMap cannot be null"),
    ],
)
def test_what_a_structural_schema_cannot_express_is_named_with_its_path(kind, path, problem) -> None:
    with pytest.raises(ctrlhost.ConfigError) as raised:
        property_of(kind)
    assert raised.value.message.startswith(f"Thing: field{path}: ")
    assert problem in raised.value.message


@pytest.mark.behaviour("findings3/NB19")
def test_a_union_of_structs_is_refused_with_what_to_write_and_what_is_written_becomes_a_schema() -> None:
    with pytest.raises(ctrlhost.ConfigError) as raised:
        property_of(Port | Bare)
    hint = "use one struct with an optional field for each alternative; see Unions in the reference of models"
    assert raised.value.hint == hint
    page = (Path(ctrlhost.__file__).parents[1] / "docs/reference/models.md").read_text(encoding="utf-8")
    block = page[page.index("## Unions") :].split("```python")[1].split("```")[0]
    names = {"msgspec": msgspec, "ctrlhost": ctrlhost, "Annotated": Annotated, "HTTPProbe": Port, "TCPProbe": Bare}
    exec(compile(block, "models.md", "exec", dont_inherit=True), names)
    schema = generate_schema(names["Spec"])["properties"]["probe"]
    assert list(schema["properties"]) == ["http", "tcp"]
    assert "required" not in schema
    assert schema["x-kubernetes-validations"] == [
        {"rule": "has(self.http) != has(self.tcp)", "message": "set one of http and tcp"}
    ]


def test_a_struct_used_twice_is_no_recursion() -> None:
    class Twice(msgspec.Struct):
        first: Bare
        second: Bare

    assert list(generate_schema(Twice)["properties"]) == ["first", "second"]


def test_a_type_that_only_type_checkers_know_is_named() -> None:
    class Unknown(msgspec.Struct):
        field: NotImported  # noqa: F821 - the mistake

    with pytest.raises(ctrlhost.ConfigError, match=r"^Unknown: cannot evaluate the annotations of Unknown: name 'Not"):
        generate_schema(Unknown)
