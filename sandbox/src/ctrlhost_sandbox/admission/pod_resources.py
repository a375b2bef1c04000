"""The resources of a pod as a whole: the sum of its containers, or what a single init container needs if it is more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.schema.quantities import Amounts, add, largest, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

POD_LEVEL = ("cpu", "memory")
"""The resources that a pod may set for itself."""


def total(spec: Mapping[str, Any], part: str, *, overhead: bool = False) -> Amounts:
    """Return the pod's `requests` or `limits`; sidecars count with the containers."""
    result: Amounts = {}
    for container in spec.get("containers") or ():
        result = add(result, of_container(container, part))
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = of_container(container, part)
        if container.get("restartPolicy") == "Always":
            result, sidecars = add(result, own), add(sidecars, own)
            own = sidecars
        else:
            own = add(own, sidecars)
        most = largest(most, own)
    result = largest(result, most)
    result |= {name: item for name, item in of_container(spec, part).items() if name in POD_LEVEL}
    if overhead:
        extra = parsed(spec.get("overhead"))
        # Overhead only adds to limits that there are.
        result = add(result, {name: item for name, item in extra.items() if part == "requests" or name in result})
    return result


def of_container(container: Mapping[str, Any], part: str) -> Amounts:
    """Return the requests or limits of a container, or those of a pod's own."""
    return parsed((container.get("resources") or {}).get(part))


def has_own(spec: Mapping[str, Any]) -> bool:
    """Return whether the pod sets resources for itself."""
    return any(name in POD_LEVEL for part in ("requests", "limits") for name in of_container(spec, part))
