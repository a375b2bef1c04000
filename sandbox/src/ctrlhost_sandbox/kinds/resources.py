"""The names of resources, and the validation of those of a container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.names import qualified_problems
from ctrlhost_sandbox.schema.normalize import amount, is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_sandbox.apimachinery.status import Cause

COMPUTE = ("cpu", "memory", "ephemeral-storage")
"""What a container may request."""
COUNTED = (
    *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
)
"""What a quota counts."""
STANDARD = frozenset(
    {
        *(*COMPUTE, "storage", "requests.storage", *COUNTED),
        *(f"{kind}.{name}" for kind in ("limits", "requests") for name in COMPUTE),
    }
)
"""The names without a prefix that mean something."""
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
    yield from status.invalid_values(where, name, _name_problems(name))
    if amount(value) < 0:
        yield status.invalid_value(where, value, "must be greater than or equal to 0")
    if (_is_extended(name) or name.startswith(_HUGE)) and not is_whole(value):
        yield status.invalid_value(where, value, "must be an integer")


def _name_problems(name: str) -> list[str]:
    problems = qualified_problems(name)
    huge = name.startswith(_HUGE)
    if not problems and "/" not in name and name not in STANDARD and not huge:
        problems.append("must be a standard resource type or fully qualified")
    if "/" not in name and name not in COMPUTE and not huge:
        problems.append("must be a standard resource for containers")
    # Quotas put `requests.` in front of such a name.
    elif _is_extended(name) and (name.startswith("requests.") or qualified_problems(f"requests.{name}")):
        problems.append("doesn't follow extended resource name standard")
    return problems


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name
