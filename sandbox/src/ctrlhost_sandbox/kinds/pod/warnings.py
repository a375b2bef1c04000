"""Warnings about valid specs of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.schema.normalize import is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def warn(spec: Mapping[str, Any], old: Mapping[str, Any] | None, path: str, warnings: list[str]) -> None:
    """Add the warnings about a spec, unless a write does not change it."""
    if spec != old:
        for field in ("initContainers", "containers"):
            for index, container in enumerate(spec.get(field) or ()):
                warnings += _container_warnings(container, f"{path}.{field}[{index}]")


def _container_warnings(container: Mapping[str, Any], path: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for field in ("limits", "requests"):
            value = (resources.get(field) or {}).get(name)
            if value is not None and not is_whole(value):
                where = f"{path}.resources.{field}[{name}]"
                yield f'{where}: fractional byte value "{value}" is invalid, must be an integer'
    names: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in names and f"$({name})" not in variable.get("value", ""):
            where = f"{path}.env[{index}]"
            yield f'{where}: hides previous definition of "{name}", which may be dropped when using apply'
        names.add(name)
    ports: dict[Any, int] = {}
    for index, port in enumerate(container.get("ports") or ()):
        key = tuple(port.get(member) for member in ("containerPort", "protocol", "hostPort", "hostIP"))
        if key in ports:
            yield f"{path}.ports[{index}]: duplicate port definition with {path}.ports[{ports[key]}]"
        ports.setdefault(key, index)
