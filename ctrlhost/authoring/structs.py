"""Write msgspec structs from OpenAPI schemas, with the fields as on the wire."""

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
#: Names that the annotations use; no field or class may have them.
_RESERVED = frozenset({"Any", "Literal", "annotations", "ctrlhost", "dict", "list", "msgspec", *_SCALARS.values()})
#: Characters that msgspec forbids in names of fields.
_FORBIDDEN = re.compile(r'["\\\x00-\x1f]')
#: The fields of `ctrlhost.Condition`; all but the required ones may be missing from a schema.
_CONDITION = {
    "type": "string",
    "status": "string",
    "reason": "string",
    "message": "string",
    "lastTransitionTime": "string",
    "observedGeneration": "integer",
}
_WIDTH = 112
_LINE_LENGTH = 120
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
#: The types of Kubernetes that `ctrlhost` has.
_KNOWN = {
    f"{_META}ObjectMeta": "ctrlhost.ObjectMeta",
    f"{_META}Condition": "ctrlhost.Condition",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "ctrlhost.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "ctrlhost.IntOrString",
}


class Structs:
    """The structs of a module, each after the structs that it refers to."""

    def __init__(self, about: str, references: Mapping[str, Schema] | None = None) -> None:
        """Start empty; `about` documents structs without a description.

        `references` are the schemas of the built-in types that `$ref` names. Their texts take any value: a newer server
        may have more values than an `enum` of them.
        """
        self._about_parts, self._references = about, references or {}
        self._classes: list[str] = []
        self._names: set[str] = set()
        self._referenced: dict[str, str] = {}

    def module(self, title: str, origin: str) -> str:
        """Return the module, which `origin` says how to write again."""
        body = "\n\n\n".join(self._classes)
        about = "\n".join(_docstring(title))[4:].removesuffix('"""').rstrip()
        head = f'{about}\n\n{origin}\n"""'
        rules = ["E501"] * any(len(line) > _LINE_LENGTH for line in body.split("\n")) + ["N815"]
        rules += ["N801"] * any("_" in name or name[:1].islower() for name in self._names)
        lint = f"# ruff: noqa: {', '.join(sorted(rules))} - fields are named as on the wire\n# isort: skip_file"
        names = ", ".join(name for name in ("Any", "Literal") if re.search(rf"\b{name}\b", body))
        typing = f"from typing import {names}\n\n" * bool(names)
        imports = f"from __future__ import annotations\n\n{typing}import ctrlhost\nimport msgspec"
        return f"{head}\n\n{lint}\n\n{imports}\n\n\n{body}\n"

    def fields(
        self, properties: Mapping[str, Any], required: Iterable[str], owner: str, *, taken: Iterable[str] = ()
    ) -> list[tuple[str, str]]:
        """Return each field's line and description; names that Python does not allow are replaced."""
        required = set(required)
        if forbidden := [name for name in properties if _FORBIDDEN.search(name)]:
            raise ConfigError(f"invalid field name {forbidden[0]!r}: a struct cannot have such a field")
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
                written += f" = msgspec.field(name={literal(name)}{default})"
            elif name not in required:
                written += " = None"
            fields.append((written, schema.get("description") or ""))
        return fields

    def class_name(self, wanted: str, reference: str = "") -> str:
        """Return an unused name for a class, which stands for the schema of this `$ref`."""
        name = _identifier(wanted, _RESERVED | self._names)
        self._names.add(name)
        if reference:
            self._referenced[reference] = name
        return name

    def _type(self, schema: Schema, name: str) -> str:
        """Return the type of a value that is not null; adds the structs that it needs."""
        if self._references and (reference := _reference(schema)):
            return self._named(reference)
        if schema.get("x-kubernetes-int-or-string"):
            return "int | str"
        kind = schema.get("type")
        values = schema.get("enum")
        # msgspec supports no other literals.
        if values and not self._references and all(type(value) in (str, int) for value in values):
            return f"Literal[{', '.join(literal(value) for value in values)}]"
        if kind == "array":
            return f"list[{self._inner(schema.get('items') or {}, name)}]"
        if kind == "object":
            if _is_condition(schema):
                return "ctrlhost.Condition"
            if schema.get("properties"):
                return self._struct(schema, name)
            inner = schema.get("additionalProperties")
            return f"dict[str, {self._inner(inner, name) if isinstance(inner, dict) else 'Any'}]"
        return _SCALARS.get(kind or "", "Any")

    def _inner(self, schema: Schema, name: str) -> str:
        return _or_none(self._type(schema, name), optional=bool(schema.get("nullable")))

    def _struct(self, schema: Schema, name: str) -> str:
        name = self.class_name(name)
        fields = self.fields(schema["properties"], schema.get("required", ()), name)
        self.write(name, about_of(schema, self._about_parts), fields)
        return name

    def _named(self, reference: str) -> str:
        """Return the type of a named schema, whose struct is written once."""
        if reference in _KNOWN:
            return _KNOWN[reference]
        schema, name = self._references[reference], reference.rpartition(".")[2]
        if not schema.get("properties"):
            return self._type(schema, name)
        if reference not in self._referenced:
            # Before its fields, which may refer to it.
            name = self.class_name(name, reference)
            self.write(name, self._about_parts, self.fields(schema["properties"], schema.get("required", ()), name))
        return self._referenced[reference]

    def write(self, name: str, text: str, fields: Iterable[tuple[str, str]], *, decorator: str = "") -> None:
        """Write a struct with these fields, as `fields` returns them."""
        head = f"class {name}(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):"
        lines = [*filter(None, [decorator]), head, *_docstring(text), ""]
        for field, about in fields:
            lines += [f"    {field}", *(_docstring(about) if about else ())]
        self._classes.append("\n".join(lines))


def about_of(schema: Schema, otherwise: str) -> str:
    """Return the description of a schema."""
    text = str(schema.get("description") or otherwise)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        text += " The server also keeps other fields, which the struct drops."
    return text


def _reference(schema: Schema) -> str:
    """Return the name of the schema that is referred to, perhaps with a default beside it; "" for none."""
    return str((schema.get("allOf") or [schema])[0].get("$ref", "")).rpartition("/")[2]


def _is_condition(schema: Schema) -> bool:
    """Return whether `ctrlhost.Condition` has all fields of a struct, and it those that a condition needs."""
    properties = schema.get("properties") or {}
    if not {"type", "status"} <= set(schema.get("required", ())) & properties.keys():
        return False
    time = properties.get("lastTransitionTime")
    return (time is None or time.get("format") == "date-time") and all(
        schema
        and schema.get("type") == _CONDITION.get(name)
        and (name == "lastTransitionTime" or not schema.get("nullable"))
        for name, schema in properties.items()
    )


def _or_none(kind: str, *, optional: bool) -> str:
    return f"{kind} | None" if optional and kind != "Any" else kind


def _docstring(text: str) -> list[str]:
    text = " ".join(text.replace("\\", "\\\\").replace('"', "'").split())
    lines = textwrap.wrap(text, _WIDTH - 6, break_long_words=False) or ["."]
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']


def literal(text: object) -> str:
    """Return a value as Python's text."""
    # JSON's strings are Python's too.
    return json.dumps(text, ensure_ascii=False)


def _identifier(name: str, taken: Collection[str]) -> str:
    """Return the name if Python allows it and it is not taken, otherwise a similar one."""
    valid = re.sub(r"[^0-9A-Za-z_]", "_", name)
    if valid.startswith("__"):
        # Python would mangle the name of such a field, or treat it as special.
        valid = valid.strip("_")
    if not valid or valid[0].isdigit():
        valid = f"_{valid}"
    while keyword.iskeyword(valid) or valid in taken:
        valid += "_"
    return valid
