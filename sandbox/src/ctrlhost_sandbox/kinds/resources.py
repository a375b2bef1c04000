"""Validation of the resources of a container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.schema.normalize import amount, is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_sandbox.apimachinery.status import Cause

_COMMON = ("cpu", "memory", "ephemeral-storage")
_HUGE = "hugepages-"


def resource_causes(resources: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Check limits and requests."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            yield from _value_causes(name, value, f"{path}.{field}[{name}]")
            if field == "limits":
                continue
            limit = limits.get(name)
            strict = name.startswith(_HUGE) or _is_extended(name)
            if limit is None and strict:
                yield status.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            elif limit is not None and strict and amount(value) != amount(limit):
                text = f"must be equal to {name} limit of {limit}"
                yield status.invalid_value(f"{path}.requests", value, text)
            elif limit is not None and amount(value) > amount(limit):
                text = f"must be less than or equal to {name} limit of {limit}"
                yield status.invalid_value(f"{path}.requests", value, text)
    names = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in names) and not names & {"cpu", "memory"}:
        yield status.forbidden_field(path, "HugePages require cpu or memory")


def _value_causes(name: str, value: str, where: str) -> Iterator[Cause]:
    if "/" not in name and name not in _COMMON and not name.startswith(_HUGE):
        yield status.invalid_value(where, name, "must be a standard resource type or fully qualified")
        yield status.invalid_value(where, name, "must be a standard resource for containers")
    if amount(value) < 0:
        yield status.invalid_value(where, value, "must be greater than or equal to 0")
    if (_is_extended(name) or name.startswith(_HUGE)) and not is_whole(value):
        yield status.invalid_value(where, value, "must be an integer")


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name
