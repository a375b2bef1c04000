"""Typed models of a custom kind, written from the schema of its CRD: msgspec structs with the fields as on the wire."""

from __future__ import annotations

import keyword
import textwrap
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Schema = Mapping[str, Any]

_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
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
    wanted = version or next(one["name"] for one in spec["versions"] if one.get("storage"))
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
        self._names: set[str] = {self._kind, self._list}

    def text(self, crd: str) -> str:
        """Write the module."""
        properties = {"apiVersion": None, "kind": None, "metadata": None, **(self._schema.get("properties") or {})}
        required = {*self._schema.get("required", ()), "metadata"}
        lines = []
        for field, schema in properties.items():
            if field in {"apiVersion", "kind"}:
                value = self._api_version if field == "apiVersion" else self._kind
                lines.append((f'{field}: Literal["{value}"]', ""))
            elif field == "metadata":
                lines.append(("metadata: dict[str, Any]", ""))
            else:
                lines.append(self._field(field, schema or {}, self._kind, required=field in required))
        self._write(self._kind, self._schema.get("description") or f"An object of the kind {self._kind}.", lines)
        listed = [
            (f'apiVersion: Literal["{self._api_version}"]', ""),
            (f'kind: Literal["{self._list}"]', ""),
            ("metadata: dict[str, Any]", ""),
            (f"items: list[{self._kind}]", ""),
        ]
        self._write(self._list, f"What a list of {self._kind} is answered with.", listed)
        body = "\n\n\n".join(self._classes)
        head = f'"""Typed models of {crd}.\n\nWritten by `ctrlhost models`: change the CRD, and write them anew.\n"""'
        rules = "E501, N815" if any(len(line) > _LONGEST for line in body.split("\n")) else "N815"
        lint = f"# ruff: noqa: {rules} - fields are called as on the wire"
        imports = "from __future__ import annotations\n\nfrom typing import Any, Literal\n\nimport msgspec"
        return f"{head}\n\n{lint}\n\n{imports}\n\n\n{body}\n"

    def _field(self, name: str, schema: Schema, owner: str, *, required: bool) -> tuple[str, str]:
        kind = self._type(schema, owner + name[:1].upper() + name[1:])
        python = name if name.isidentifier() and not keyword.iskeyword(name) else _identifier(name)
        optional = not required or bool(schema.get("nullable"))
        written = f"{python}: {kind}" + (" | None" if optional and kind != "Any" else "")
        if python != name:
            written += f' = msgspec.field(name="{name}"' + ("" if required else ", default=None") + ")"
        elif not required:
            written += " = None"
        return written, schema.get("description") or ""

    def _type(self, schema: Schema, name: str) -> str:
        if schema.get("x-kubernetes-int-or-string"):
            return "int | str"
        kind = schema.get("type")
        values = schema.get("enum")
        if values and all(type(value) in (str, int, bool) for value in values):
            return f"Literal[{', '.join(_literal(value) for value in values)}]"
        if kind == "array":
            return f"list[{self._type(schema.get('items') or {}, name)}]"
        if kind == "object":
            if schema.get("properties"):
                return self._struct(schema, name)
            inner = schema.get("additionalProperties")
            return f"dict[str, {self._type(inner, name) if isinstance(inner, dict) else 'Any'}]"
        return _SCALARS.get(kind or "", "Any")

    def _struct(self, schema: Schema, name: str) -> str:
        name = "".join(part if part.isalnum() else "_" for part in name)
        while name in self._names:
            name += "_"
        self._names.add(name)
        required = set(schema.get("required", ()))
        fields = [
            self._field(field, inner or {}, name, required=field in required)
            for field, inner in schema["properties"].items()
        ]
        self._write(name, schema.get("description") or f"Part of {self._kind}.", fields)
        return name

    def _write(self, name: str, text: str, fields: Iterable[tuple[str, str]]) -> None:
        lines = [f"class {name}(msgspec.Struct, kw_only=True, omit_defaults=True):", *_docstring(text), ""]
        for field, about in fields:
            lines += [f"    {field}", *(_docstring(about) if about else ())]
        self._classes.append("\n".join(lines))


def _docstring(text: str) -> list[str]:
    text = " ".join(text.replace("\\", "\\\\").replace('"', "'").split())
    lines = textwrap.wrap(text, _WIDTH - 6, break_long_words=False) or ["."]
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']


def _literal(value: object) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else repr(value)


def _identifier(name: str) -> str:
    made = "".join(each if each.isalnum() else "_" for each in name)
    made = f"_{made}" if not made[:1].isalpha() and not made.startswith("_") else made
    return f"{made}_" if keyword.iskeyword(made) or made == name else made
