"""Checks of JSON against a JSON schema, for the words that the schema of the status uses."""

from __future__ import annotations

from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = {"$ref", "$defs", "$schema", "title", "description", "type", "enum", "anyOf"} | {
    "properties",
    "required",
    "items",
    "additionalProperties",
}


def problems(value: Any, schema: dict[str, Any], root: dict[str, Any] | None = None, path: str = "$") -> list[str]:
    """Return where a value does not fit a schema. A field that the schema does not have is a problem, too."""
    root = schema if root is None else root
    assert not schema.keys() - _KNOWN, f"{path}: the schema has words that this does not check"
    if "$ref" in schema:
        return problems(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, path)
    if "anyOf" in schema:
        tried = [problems(value, choice, root, path) for choice in schema["anyOf"]]
        return [] if any(not texts for texts in tried) else tried[0]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{path}: {value!r} is none of {schema['enum']}"]
    kinds = _TYPES[schema["type"]]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return [f"{path}: {value!r} is no {schema['type']}"]
    texts = []
    if isinstance(value, dict):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        texts += [f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, inner in value.items():
            if name in fields:
                texts += problems(inner, fields[name], root, f"{path}.{name}")
            elif isinstance(others, dict):
                texts += problems(inner, others, root, f"{path}.{name}")
            else:
                texts.append(f"{path}.{name} is unknown")
    if isinstance(value, list) and "items" in schema:
        texts += [
            text for at, inner in enumerate(value) for text in problems(inner, schema["items"], root, f"{path}[{at}]")
        ]
    return texts
