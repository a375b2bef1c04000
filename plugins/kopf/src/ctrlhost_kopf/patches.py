"""The patch of a handler: a merge patch with views of its parts, and functions that change the newest state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ctrlhost_kopf.dicts import MutableView, ensure, remove

PatchFn: TypeAlias = Callable[[dict[str, Any]], None]


class MetaPatch(MutableView):
    """The part of a patch for the metadata."""

    def __init__(self, patch: Patch) -> None:
        super().__init__(patch, "metadata")
        self.labels, self.annotations = MutableView(self, "labels"), MutableView(self, "annotations")


class Patch(dict[str, Any]):
    """A merge patch: None removes a field. `fns` are called with the object as a dict, and change it."""

    def __init__(self, src: dict[str, Any] | None = None, /, body: Any = None, fns: Iterable[PatchFn] = ()) -> None:
        """Start with the changes and functions of `src`; `body` is the object that is patched."""
        super().__init__(src or {})
        self.meta = self.metadata = MetaPatch(self)
        self.spec, self.status = MutableView(self, "spec"), MutableView(self, "status")
        self.body = body
        self.fns: list[PatchFn] = [*(src.fns if isinstance(src, Patch) else ()), *fns]

    def __repr__(self) -> str:
        parts = [super().__repr__()] if len(self) else []
        return f"Patch({', '.join([*parts, *([f'fns={self.fns!r}'] if self.fns else [])])})"

    def __bool__(self) -> bool:
        return len(self) > 0 or bool(self.fns)

    def clear(self) -> None:
        """Drop all changes and functions."""
        super().clear()
        self.fns.clear()

    def as_json_patch(self, body: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the operations that change `body`, by default the object that is patched; ValueError without one."""
        base = self.body if body is None else body
        if not self:
            return []
        if base is None:
            raise ValueError("a JSON patch needs the object that it changes")
        return list(operations(dict(base), self.applied(base)))

    def applied(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of an object with the changes."""
        after = copy.deepcopy(dict(body))
        _merge(after, (), dict(self))
        for fn in self.fns:
            fn(after)
        return after


def _merge(body: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is None:
        remove(body, path)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            _merge(body, (*path, key), part)
    else:
        ensure(body, path, value)


def operations(before: Any, after: Any, path: str = "") -> Iterable[dict[str, Any]]:
    """Yield the operations of a JSON patch from one value to another; a changed list is replaced."""
    if before == after:
        return
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield {"op": "replace", "path": path, "value": after}
        return
    for key in [*before, *(key for key in after if key not in before)]:
        place = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if key not in after:
            yield {"op": "remove", "path": place}
        elif key not in before:
            yield {"op": "add", "path": place, "value": after[key]}
        else:
            yield from operations(before[key], after[key], place)
