"""Typed models of a custom kind, written from the schema of its CRD: msgspec structs with the fields as on the wire."""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    Schema = Mapping[str, Any]

_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
#: Names that the annotations use: as those of a field or class they would mean something else there.
_RESERVED = frozenset({"Any", "Literal", "annotations", "dict", "list", "msgspec", *_SCALARS.values()})
#: What msgspec allows in no name of a field.
_IMPOSSIBLE = re.compile(r'["\\\x00-\x1f]')
_WIDTH = 112
_LONGEST = 120


def models_of(crd: Mapping[str, Any], version: str | None = None) -> str:
    """Give a Python module with the structs of one version of a CRD, the stored one unless named.

    The same CRD gives the same text. ConfigError if it is no CRD, has no such version, or the version has no schema.
    """
    if crd.get("kind") != "CustomResourceDefinition":
        raise ConfigError(f"this is no CustomResourceDefinition but {crd.get('kind') or 'nothing with a kind'}")
    spec, name = crd["spec"], crd["metadata"]["name"]
    versions = {one["name"]: one for one in spec["versions"]}
    wanted = version or next((one["name"] for one in spec["versions"] if one.get("storage")), None)
    if wanted is None:
        raise ConfigError(f"{name} has no version that is stored", hint="say which one is meant with --version")
    if wanted not in versions:
        raise ConfigError(f"{name} has no version {wanted}", hint=f"it has {', '.join(versions)}")
    schema = (versions[wanted].get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        raise ConfigError(f"{name} has no schema for version {wanted}", hint="models are made from the schema")
    return _Module(spec["names"], f"{spec['group']}/{wanted}", schema).text(name)


class _Module:
    """The structs of one kind, inner ones before those that have them as fields."""

    def __init__(self, names: Mapping[str, Any], api_version: str, schema: Schema) -> None:
        self._kind, self._list = names["kind"], names.get("listKind") or f"{names['kind']}List"
        self._api_version, self._schema = api_version, schema
        self._classes: list[str] = []
        self._names: set[str] = set()
        self._root, self._root_list = self._class_name(self._kind), self._class_name(self._list)

    def text(self, crd: str) -> str:
        """Write the module."""
        properties = {"apiVersion": None, "kind": None, "metadata": None, **(self._schema.get("properties") or {})}
        required = {*self._schema.get("required", ()), "metadata"}
        fixed = {name: properties.pop(name) for name in ("apiVersion", "kind", "metadata")}
        lines = [
            (f"apiVersion: Literal[{_literal(self._api_version)}]", ""),
            (f"kind: Literal[{_literal(self._kind)}]", ""),
            ("metadata: dict[str, Any]", ""),
            *self._fields(properties, required, self._root, taken=fixed),
        ]
        self._write(self._root, _about(self._schema, f"An object of the kind {self._kind}."), lines)
        listed = [
            (f"apiVersion: Literal[{_literal(self._api_version)}]", ""),
            (f"kind: Literal[{_literal(self._list)}]", ""),
            ("metadata: dict[str, Any]", ""),
            (f"items: list[{self._root}]", ""),
        ]
        self._write(self._root_list, f"What a list of {self._kind} is answered with.", listed)
        body = "\n\n\n".join(self._classes)
        about = "\n".join(_docstring(f"Typed models of {crd}."))[4:].removesuffix('"""').rstrip()
        head = f'{about}\n\nWritten by `ctrlhost models`: change the CRD, and write them anew.\n"""'
        rules = ["E501"] * any(len(line) > _LONGEST for line in body.split("\n")) + ["N815"]
        rules += ["N801"] * any("_" in name or name[:1].islower() for name in self._names)
        lint = f"# ruff: noqa: {', '.join(sorted(rules))} - fields are called as on the wire"
        imports = "from __future__ import annotations\n\nfrom typing import Any, Literal\n\nimport msgspec"
        return f"{head}\n\n{lint}\n\n{imports}\n\n\n{body}\n"

    def _fields(
        self, properties: Mapping[str, Any], required: Iterable[str], owner: str, *, taken: Iterable[str] = ()
    ) -> list[tuple[str, str]]:
        """Give each field's line and description; those whose names Python does not allow get others."""
        required = set(required)
        if impossible := [name for name in properties if _IMPOSSIBLE.search(name)]:
            raise ConfigError(f"no struct can have a field that is called {impossible[0]!r}")
        kinds = {
            name: self._type(schema or {}, owner + name[:1].upper() + name[1:]) for name, schema in properties.items()
        }
        plain = {name for name in properties if _identifier(name, _RESERVED | self._names) == name}
        fields, used = [], {*plain, *taken}
        for name, kind in kinds.items():
            schema = properties[name] or {}
            python = name if name in plain else _identifier(name, _RESERVED | self._names | used)
            used.add(python)
            written = f"{python}: {_or_none(kind, optional=name not in required or bool(schema.get('nullable')))}"
            if python != name:
                default = "" if name in required else ", default=None"
                written += f" = msgspec.field(name={_literal(name)}{default})"
            elif name not in required:
                written += " = None"
            fields.append((written, schema.get("description") or ""))
        return fields

    def _class_name(self, wanted: str) -> str:
        """Give a name that no other class has, and none that the module needs."""
        name = _identifier(wanted, _RESERVED | self._names)
        self._names.add(name)
        return name

    def _type(self, schema: Schema, name: str) -> str:
        """Give the type of a value that is there; structs are made on the way."""
        if schema.get("x-kubernetes-int-or-string"):
            return "int | str"
        kind = schema.get("type")
        values = schema.get("enum")
        # msgspec knows no other literals.
        if values and all(type(value) in (str, int) for value in values):
            return f"Literal[{', '.join(_literal(value) for value in values)}]"
        if kind == "array":
            return f"list[{self._inner(schema.get('items') or {}, name)}]"
        if kind == "object":
            if schema.get("properties"):
                return self._struct(schema, name)
            inner = schema.get("additionalProperties")
            return f"dict[str, {self._inner(inner, name) if isinstance(inner, dict) else 'Any'}]"
        return _SCALARS.get(kind or "", "Any")

    def _inner(self, schema: Schema, name: str) -> str:
        return _or_none(self._type(schema, name), optional=bool(schema.get("nullable")))

    def _struct(self, schema: Schema, name: str) -> str:
        name = self._class_name(name)
        fields = self._fields(schema["properties"], schema.get("required", ()), name)
        self._write(name, _about(schema, f"Part of {self._kind}."), fields)
        return name

    def _write(self, name: str, text: str, fields: Iterable[tuple[str, str]]) -> None:
        lines = [f"class {name}(msgspec.Struct, kw_only=True, omit_defaults=True):", *_docstring(text), ""]
        for field, about in fields:
            lines += [f"    {field}", *(_docstring(about) if about else ())]
        self._classes.append("\n".join(lines))


def _about(schema: Schema, otherwise: str) -> str:
    text = str(schema.get("description") or otherwise)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        text += " The server keeps other fields too; a struct has no place for them."
    return text


def _or_none(kind: str, *, optional: bool) -> str:
    return f"{kind} | None" if optional and kind != "Any" else kind


def _docstring(text: str) -> list[str]:
    text = " ".join(text.replace("\\", "\\\\").replace('"', "'").split())
    lines = textwrap.wrap(text, _WIDTH - 6, break_long_words=False) or ["."]
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']


def _literal(text: object) -> str:
    # JSON's strings are Python's too.
    return json.dumps(text, ensure_ascii=False)


def _identifier(name: str, taken: Collection[str]) -> str:
    """Give the name itself where Python allows it and it is not taken, else one that is close to it."""
    made = re.sub(r"[^0-9A-Za-z_]", "_", name)
    if made.startswith("__"):
        # Python would change the name of such a field, or take it for one of its own.
        made = made.strip("_")
    if not made or made[0].isdigit():
        made = f"_{made}"
    while keyword.iskeyword(made) or made in taken:
        made += "_"
    return made
