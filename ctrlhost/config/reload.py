"""Which settings a running host can take over from a changed configuration, and which need a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.config.load import Configuration

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    #: The steps of a setting's path.
    Path: TypeAlias = tuple[str, ...]

_MISSING = object()


class Changes(NamedTuple):
    """The difference of two configurations, as paths of settings."""

    #: The configuration of before with the changes that need no restart.
    effective: Configuration
    #: The settings that changed and need none.
    taken_over: list[str]
    #: The settings that changed and need one.
    later: list[str]


def compare(before: Configuration, after: Configuration) -> Changes:
    """Compare the configuration that a host has with a newer one."""
    old, new = before.leaves(), after.leaves()
    effective: dict[Path, Any] = dict(old)
    names: dict[bool, list[str]] = {True: [], False: []}
    for path in sorted({*old, *new}):
        value = new.get(path, _MISSING)
        if value == old.get(path, _MISSING):
            continue
        at_once = _needs_no_restart(path, old, new)
        names[at_once].append(".".join(path))
        if at_once and value is _MISSING:
            del effective[path]
        elif at_once:
            effective[path] = value
    return Changes(Configuration.of_leaves(effective, after.source), names[True], names[False])


def _needs_no_restart(path: Path, old: dict[Path, Any], new: dict[Path, Any]) -> bool:
    match path:
        case ("host", "log_level") | ("host", "log_levels", *_):
            return True
        case ("controllers", _, setting):
            # Other namespaces, and other parts, are other informers.
            return setting not in ("namespaces", "shard_by")
        case ("supervision", "deadlines", _) | ("supervision", _, "deadlines", _):
            return True
        case ("informers", "memory_budget"):
            # Informers that began without a budget count nothing.
            return path in old and path in new
        case _:
            return False
