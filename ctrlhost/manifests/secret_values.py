"""Which settings of plugins are secrets, and whether manifests would show their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from ctrlhost.config.secret import Secret
from ctrlhost.config.types import alternatives, canonical
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctrlhost.config.load import Configuration
    from ctrlhost.manifests.loading import SetUpPlugin


def check_values(plugins: Iterable[SetUpPlugin], printed: Iterable[Configuration]) -> None:
    """Reject values of secret settings, which would be in the manifests.

    `printed` are the file and each of the assignments on its own, since one that overrides another hides it only. What
    the environment has is in no manifest, and the path of a file in the pod is no secret. The types of the settings of
    plugins that are not deployed are unknown, so those settings are rejected.
    """
    known = {canonical(plugin.name): plugin for plugin in plugins}
    for configuration in printed:
        for name, table in configuration.tree["plugins"].items():
            plugin_known = known.get(canonical(name))
            if plugin_known is None:
                hint = (
                    f"leave the table out of {configuration.source}"
                    if configuration.source
                    else "leave out its `--set`"
                )
                raise ConfigError(
                    f"plugins.{name}: the manifests would show these settings, but they deploy no plugin `{name}`",
                    hint=hint,
                )
            kind = plugin_known.plugin.settings_type()
            for setting in () if kind is None else _find(table, inspect.type_info(kind), plugin_known.name):
                file = setting.removeprefix(f"{plugin_known.name}.") in secret_settings(kind)
                raise ConfigError(
                    f"plugins.{setting}: the manifests would show the secret",
                    hint=f"leave it out, and write `--secret {setting}=SECRET/KEY`"
                    + (", or `--secret-file` for a file" if file else ""),
                )


def secret_settings(kind: type[msgspec.Struct] | None, outer: tuple[Any, ...] = ()) -> list[str]:
    """Return the settings of a plugin that may be read from files, such as `token` and `database.password`.

    `outer` are the structs that this one is in.
    """
    paths: list[str] = []
    for setting in () if kind is None else msgspec.structs.fields(kind):
        kinds = alternatives(setting.type)
        nested = [part for part in kinds if isinstance(part, type) and issubclass(part, msgspec.Struct)]
        if Secret in kinds:
            paths.append(setting.encode_name)
        elif len(nested) == 1 and nested[0] not in (*outer, kind):
            paths += (f"{setting.encode_name}.{name}" for name in secret_settings(nested[0], (*outer, kind)))
    return paths


def _find(value: Any, kind: inspect.Type, path: str) -> Iterator[str]:
    """Return the paths of secrets that are given as texts; a list has one path."""
    kinds = _alternatives(kind)
    if any(map(_is_secret, kinds)):
        if not isinstance(value, dict) or value.keys() != {"file"}:
            yield path
        return
    for holder in filter(_holds_secret, kinds):
        fields = {canonical(field.encode_name): field for field in getattr(holder, "fields", ())}
        if isinstance(value, dict) and fields:
            for key, part in value.items():
                if (field := fields.get(canonical(key))) is not None:
                    yield from _find(part, field.type, f"{path}.{field.encode_name}")
        elif isinstance(value, dict) and isinstance(holder, inspect.DictType):
            for key, part in value.items():
                yield from _find(part, holder.value_type, f"{path}.{key}")
        elif isinstance(value, list) and not fields:
            if any(any(_find(part, item, path)) for part in value for item in _within(holder)):
                yield path
        else:
            # A text for the whole of it, which is not parsed here.
            yield path


def _alternatives(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    """Return the types that a union is made of, without annotations."""
    if isinstance(kind, inspect.Metadata):
        return _alternatives(kind.type)
    if isinstance(kind, inspect.UnionType):
        return tuple(inner for part in kind.types for inner in _alternatives(part))
    return (kind,)


def _within(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    """Return the types of the fields, values or items."""
    if isinstance(kind, (inspect.Metadata, inspect.UnionType)):
        return _alternatives(kind)
    if isinstance(kind, inspect.DictType):
        return (kind.value_type,)
    if isinstance(kind, inspect.TupleType):
        return kind.item_types
    if (item := getattr(kind, "item_type", None)) is not None:
        return (item,)
    return tuple(field.type for field in getattr(kind, "fields", ()))


def _is_secret(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.CustomType) and kind.cls is Secret


def _holds_secret(kind: inspect.Type) -> bool:
    """Return whether the type is or contains a secret. Structs may contain themselves."""
    seen, left = set(), [kind]
    while left:
        part_left = left.pop()
        if _is_secret(part_left):
            return True
        if id(part_left) not in seen:
            seen.add(id(part_left))
            left += _within(part_left)
    return False
