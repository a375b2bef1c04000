"""Objects in custom resources (`x-kubernetes-embedded-resource`): their apiVersion, kind and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import metadata_causes, name_problems
from ctrlhost_sandbox.schema import go_text
from ctrlhost_sandbox.schema.normalize import Undecodable, conform
from ctrlhost_sandbox.schema.shapes import builtin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_sandbox.apimachinery.status import Cause

_MOST_PARTS = 2


def conform_member(name: str, value: Any, path: str, unknown: list[str] | None) -> Any:
    """Return an apiVersion, a kind or metadata in canonical form; Undecodable if its type is wrong."""
    if name != "metadata":
        if type(value) is not str:
            raise _misfit(name, value, path, "must be a string")
        return value
    if value is None:
        return {}
    if type(value) is not dict:
        kind = go_text.json_kind(value)
        raise _misfit(name, value, path, f"json: cannot unmarshal {kind} into Go value of type v1.ObjectMeta")
    dropped: list[str] = []
    try:
        result = conform(builtin("meta.ObjectMeta"), value, "ObjectMeta", dropped)
    except Undecodable as error:
        raise _misfit(name, value, path, error.why) from None
    if unknown is not None:
        unknown += [f"{path}.metadata.{key}" for key in dropped]
    return result


def _misfit(name: str, value: Any, path: str, why: str) -> Undecodable:
    return Undecodable(f"{path}.{name}: Invalid value: {status.show(value)}: {why}")


def causes(value: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check an embedded object, except the members that its schema declares."""
    version, kind = value.get("apiVersion"), value.get("kind")
    for name, member in (("apiVersion", version), ("kind", kind)):
        if member is None:
            yield status.required(f"{path}.{name}", "must not be empty")
        elif not member:
            yield status.invalid_value(f"{path}.{name}", "", "must not be empty")
    if version and len(version.split("/")) > _MOST_PARTS:
        text = f"unexpected GroupVersion string: {version}"
        yield status.invalid_value(f"{path}.apiVersion", version, text)
    if kind and (problems := name_problems("label_1035", kind.lower())):
        text = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        yield status.invalid_value(f"{path}.kind", kind, text)
    metadata = value.get("metadata") or {}
    if problems := name_problems("segment", metadata.get("name", "")):
        yield from status.invalid_values(f"{path}.metadata.name", metadata["name"], problems)
    for cause in metadata_causes(metadata, [], qualified=False):
        yield status.Cause(cause.reason, cause.message, f"{path}.{cause.field}")
