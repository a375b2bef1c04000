"""What happens to an object between its arrival and its storage: form, defaults, validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.kinds import strategy_of
from ctrlhost.sandbox.kinds.strategy import set_defaults
from ctrlhost.sandbox.registry import meta
from ctrlhost.sandbox.schema import rules, structural
from ctrlhost.sandbox.schema.normalize import Undecodable, conform
from ctrlhost.sandbox.schema.shapes import of_kind
from ctrlhost.sandbox.schema.validation import validate

if TYPE_CHECKING:
    from ctrlhost.sandbox.apimachinery.objects import Object
    from ctrlhost.sandbox.apimachinery.status import Cause
    from ctrlhost.sandbox.context import Engine
    from ctrlhost.sandbox.registry.operation import Call
    from ctrlhost.sandbox.registry.registry import Kind


def conform_object(call: Call, obj: Object) -> Object:
    """Drop what the kind does not know and bring the rest into canonical form.

    `Undecodable` is raised for wrong types, and for unknown fields where the client is strict.
    """
    kind = call.kind
    unknown: list[str] = []
    if kind.custom is not None:
        meta.tidy(obj, kind.kind, unknown)
        structural.prune(kind.custom.schema, obj, unknown)
    else:
        shape = of_kind(kind.group, kind.kind)
        meta.metadata_of(obj)
        if shape is not None:
            try:
                obj = conform(shape, obj, kind.kind, unknown)
            except Undecodable as error:
                raise error.of(kind.kind, kind.version) from None
    if unknown or call.problems:
        _report(call, [*call.problems, *(f'unknown field "{path}"' for path in unknown)])
    return obj


def _report(call: Call, problems: list[str]) -> None:
    """Warn of fields that were dropped, or refuse them, as the client asked."""
    if call.field_validation == "Strict":
        why = f"strict decoding error: {', '.join(problems)}"
        raise Undecodable(why).of(call.kind.kind, call.kind.version)
    if call.field_validation == "Warn":
        call.warnings += problems


def default_object(call: Call, obj: Object) -> None:
    """Fill in what was left out."""
    if call.kind.custom is not None:
        structural.default(call.kind.custom.schema, obj)
    else:
        set_defaults(strategy_of(call.kind), obj)


def causes(engine: Engine, call: Call, obj: Object, old: Object | None) -> list[Cause]:
    """Say what is wrong with an object, metadata aside."""
    kind = call.kind
    if kind.custom is not None:
        body = {key: value for key, value in obj.items() if key not in ("metadata", "apiVersion", "kind")}
        declared = structural.properties(kind.custom.schema)
        for name in ("apiVersion", "kind", "metadata"):
            if name in declared or name in (kind.custom.schema.get("required") or ()):
                body[name] = obj[name]
        if old is None:
            found = validate(kind.custom.schema, body)
        else:
            before = {key: value for key, value in old.items() if key in body or key == "status"}
            found = validate(kind.custom.schema, body, "", before)
        if engine.options.cel == "enforce" and kind.custom.rules is not None:
            found += rules.findings(kind.custom.rules, found, obj, old, call.warnings)
        return found
    return strategy_of(kind).causes(engine, call, obj, old)


def generation_grows(kind: Kind, obj: Object, old: Object) -> bool:
    """Tell whether a write changed what `generation` counts: everything but metadata and status."""
    if not kind.generation:
        return False
    skipped = {"metadata", "apiVersion", "kind"} | ({"status"} if kind.has_status else set())
    if _without(obj, skipped) != _without(old, skipped):
        return True
    return strategy_of(kind).metadata_counts(obj, old)


def _without(obj: Object, keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in keys}
