"""Which fields an object loses when it is converted to another version of its kind and back."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlhost.authoring.findings import Finding
from ctrlhost.authoring.generated_objects import generated, pruned
from ctrlhost.webhooks.conversion import ConversionFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctrlhost.webhooks.conversion import Converters

#: Objects that are tried for each pair of versions.
_OBJECTS = 3
_METADATA = {"name": "generated", "namespace": "default", "uid": "0"}


class Loss(NamedTuple):
    """What goes on the way from one version to another one and back."""

    source: str
    target: str
    #: The paths of fields that are gone or changed afterwards; empty if nothing is.
    fields: list[str]
    #: Whether the functions took none of the generated objects.
    unchecked: bool = False


def check_conversions(
    plugin: str, conversions: Sequence[Converters], crds: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Convert generated objects there and back: what they lose then is a warning."""
    by_name = {crd["metadata"]["name"]: crd for crd in crds}
    for converters in conversions:
        if (crd := by_name.get(converters.crd_name)) is None:
            continue
        found = list(losses(converters, crd))
        for loss in found:
            if loss.fields:
                text = f"{converters.crd_name}: {loss.source} to {loss.target} and back loses {', '.join(loss.fields)}"
                hint = "keep what the other version has no field for in an annotation"
                yield Finding("warning", plugin, "conversion", text, hint)
        unchecked = [f"{loss.source} to {loss.target}" for loss in found if loss.unchecked]
        but = f", but for {', '.join(unchecked)}: the functions take no generated object" if unchecked else ""
        if not any(loss.fields for loss in found):
            yield Finding("ok", plugin, "conversion", f"{converters.crd_name}: nothing is lost{but}")


def losses(converters: Converters, crd: Mapping[str, Any]) -> Iterator[Loss]:
    """Yield the result for each pair of versions."""
    schemas = {version["name"]: version["schema"]["openAPIV3Schema"] for version in crd["spec"]["versions"]}
    for source, target in permutations(converters.versions, 2):
        fields: dict[str, None] = {}
        taken = 0
        for number in range(_OBJECTS):
            obj = _object(converters, source, generated(schemas[source], number))
            try:
                # Fields that the version lacks do not come back from the server.
                converted = converters.convert(obj, target)
                metadata = converted["metadata"]
                there = _object(converters, target, pruned(converted, schemas[target]), metadata)
                back = pruned(converters.convert(there, source), schemas[source])
            except ConversionFailed:
                continue
            taken += 1
            own = pruned(obj, schemas[source])
            for name in schemas[source].get("properties") or {}:
                if name in own and name != "metadata":
                    fields.update(dict.fromkeys(_lost(own[name], back.get(name), name)))
        yield Loss(source, target, list(fields), unchecked=not taken)


def _object(
    converters: Converters, version: str, members: Mapping[str, Any], metadata: Mapping[str, Any] = _METADATA
) -> dict[str, Any]:
    return {
        **members,
        "apiVersion": f"{converters.group}/{version}",
        "kind": converters.kind,
        "metadata": dict(metadata),
    }


def _lost(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from _lost(value, after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for own, other in zip(before, after, strict=True):
            yield from _lost(own, other, f"{path}[]")
    elif before != after and not (after is None and before in ("", [], {})):
        yield path
