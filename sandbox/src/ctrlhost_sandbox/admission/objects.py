"""Processing of an object before it is stored: normalization, defaults, validation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery.repeated import Repeated
from ctrlhost_sandbox.kinds import strategy_of
from ctrlhost_sandbox.kinds.strategy import set_defaults
from ctrlhost_sandbox.registry import meta
from ctrlhost_sandbox.registry.operation import Operation
from ctrlhost_sandbox.schema import list_types, rules, scale, structural
from ctrlhost_sandbox.schema.normalize import Undecodable, conform
from ctrlhost_sandbox.schema.shapes import of_kind
from ctrlhost_sandbox.schema.validation import ABSENT, validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind, Scale
    from ctrlhost_sandbox.schema.structural import Schema

_IDENTITY = ("apiVersion", "kind", "metadata")


def conform_object(operation: Operation, obj: Object) -> Object:
    """Drop unknown fields and normalize the rest.

    Raise `Undecodable` for wrong types, and for unknown fields if the client asked for strict validation.
    """
    kind = operation.kind
    unknown: list[str] = []
    if kind.custom is not None:
        pruned: list[str] = []
        try:
            meta.normalize_metadata(obj, kind.kind, unknown)
            structural.prune(kind.custom.schema, obj, pruned)
        except Undecodable as error:
            raise error.of(kind.kind, kind.version) from None
        unknown += sorted(pruned)
    else:
        shape = of_kind(kind.group, kind.version, kind.kind)
        meta.ensure_metadata(obj)
        if shape is not None:
            try:
                obj = conform(shape, obj, kind.kind, unknown)
            except Undecodable as error:
                raise error.of(kind.kind, kind.version) from None
    if unknown or operation.problems or operation.repeated.paths or operation.repeated.lines:
        _report(operation, unknown)
        # An update that creates the object decodes it again.
        operation.problems, operation.repeated = [], Repeated()
    return obj


def canonical(operation: Operation, obj: Object, field_validation: str) -> Object:
    """Return an object that admission has changed as decoding leaves it, with defaults; raise `Undecodable`."""
    alone = Operation(
        operation.verb, operation.kind, operation.namespace, operation.name, field_validation=field_validation
    )
    obj = conform_object(alone, obj)
    default_object(alone, obj)
    return obj


def _report(operation: Operation, unknown: list[str]) -> None:
    """Warn about unknown and repeated fields, or refuse them, as the client asked."""
    lines, problems = operation.repeated.lines, [*operation.problems, *_problems(operation, unknown)]
    if operation.field_validation == "Strict" and (lines or problems):
        why = f"strict decoding error: {', '.join(([yaml_errors(lines)] if lines else []) + problems)}"
        raise Undecodable(why).of(operation.kind.kind, operation.kind.version)
    if operation.field_validation == "Warn":
        operation.warnings += [*lines, *problems]


def _problems(operation: Operation, unknown: list[str]) -> list[str]:
    """Return a text per field; in the document's order for built-in kinds, which a real server decodes in one pass."""
    repeated = operation.repeated
    problems = [(repeated.paths[path], f'duplicate field "{path}"') for path in repeated.paths]
    if operation.kind.custom is None:
        # The decoder skips the values of unknown fields.
        skipped = tuple(f"{path}{end}" for path in unknown for end in (".", "["))
        seen = (path for path in repeated.paths if path not in unknown and not path.startswith(skipped))
        problems = [(repeated.paths[path], f'duplicate field "{path}"') for path in seen]
        problems += [(repeated.order.get(path, 0), f'unknown field "{path}"') for path in unknown]
        return [text for _, text in sorted(problems, key=lambda item: item[0])]
    return [text for _, text in problems] + [f'unknown field "{path}"' for path in unknown]


def yaml_errors(lines: list[str]) -> str:
    """Return the text for repeated keys of a YAML document."""
    return "\n  ".join(("yaml: unmarshal errors:", *lines))


def default_object(operation: Operation, obj: Object) -> None:
    """Set defaults."""
    if operation.kind.custom is not None:
        structural.default(operation.kind.custom.schema, obj, keep_nulls=operation.applies)
    else:
        set_defaults(strategy_of(operation.kind), obj)


def causes(
    context: ServerContext, operation: Operation, obj: Object, old: Object | None, found_before: Sequence[Cause] = ()
) -> Iterable[Cause]:
    """Return the causes why an object is invalid, except for those of metadata, which were `found_before`."""
    kind, custom = operation.kind, operation.kind.custom
    if custom is None:
        return strategy_of(kind).causes(context, operation, obj, old)
    if operation.subresource == "status":
        problems = _status_causes(custom.schema, obj, old)
    else:
        declared, required = structural.properties(custom.schema), custom.schema.get("required") or ()
        body = {key: value for key, value in obj.items() if key not in _IDENTITY}
        for name in _IDENTITY:
            if name in declared or name in required:
                body[name] = obj[name]
        before = (
            ABSENT
            if old is None
            else {key: value for key, value in old.items() if key in body and key not in _IDENTITY}
        )
        problems = validate(custom.schema, body, "", before)
    lists = list_types.causes(custom.schema, obj)
    if lists and (old is None or not any(list_types.causes(custom.schema, old))):
        # An object whose lists were invalid before may stay so.
        problems += lists
    if kind.scale is not None:
        problems += _scale_causes(kind.scale, operation.subresource, obj)
    if context.options.cel == "enforce" and custom.rules is not None:
        problems += rules.findings(custom.rules, [*found_before, *problems], obj, old, operation.warnings)
    return problems


def _status_causes(schema: Schema, obj: Object, old: Object | None) -> list[Cause]:
    """Check the status only, as an object of its own."""
    child = structural.properties(schema).get("status")
    if child is None or "status" not in obj:
        return []
    before = ABSENT if old is None else old.get("status", ABSENT)
    problems = validate(child, obj["status"], "", before)
    return [replace(cause, field=_below_status(cause.field)) for cause in problems]


def _below_status(field: str) -> str:
    return "status" if field in ("", "<nil>") else f"status{field}" if field[0] == "[" else f"status.{field}"


def _scale_causes(paths: Scale, subresource: str, obj: Object) -> Iterator[Cause]:
    """Check the fields of the scale sub-resource that a write may change."""
    if subresource == "status":
        yield from scale.causes(obj, paths.status_replicas, int)
        if paths.selector:
            yield from scale.causes(obj, paths.selector, str)
    else:
        yield from scale.causes(obj, paths.replicas, int)


def generation_grows(kind: Kind, obj: Object, old: Object) -> bool:
    """Return whether a write changed what `generation` counts: everything but metadata and status."""
    if not kind.generation:
        return False
    skipped = (*_IDENTITY, "status") if kind.has_status else _IDENTITY
    after, before = ({key: state[key] for key in state if key not in skipped} for state in (obj, old))
    return after != before or strategy_of(kind).metadata_counts(obj, old)
