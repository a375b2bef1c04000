"""Checks settings against the types of a struct; errors name the full path of the setting."""

from __future__ import annotations

import logging
import re
import tomllib
import types
import typing
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

import msgspec

from ctrlhost.config.secret import Secret
from ctrlhost.config.size import Size
from ctrlhost.duration import Duration
from ctrlhost.errors import ConfigError
from ctrlhost.suggestions import suggest

T = TypeVar("T", bound=msgspec.Struct)

log = logging.getLogger("ctrlhost.config")

_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>[^`]*)`$")

_REQUIRED = re.compile(r"Object missing required field `([^`]+)`")
_NAMED = re.compile(r"`(\w+)`")
#: The end of the name of a setting that has the path of a secret's file.
_FILE = "_file"
#: The beginning of the origin of a value on the command line.
_COMMAND_LINE = "--set"


@dataclass(frozen=True, slots=True)
class RawValue:
    """A string from the environment or the command line, parsed as TOML once the type is known."""

    #: Not shown: it may be a secret.
    raw: str = field(repr=False)
    origin: str

    def value_for(self, kind: Any) -> Any:
        """Parse the string: unchanged for `str`, `a,b` for a list, otherwise as a TOML value."""
        kinds = alternatives(kind)
        if Secret in kinds:
            return Secret(self.raw)
        if str in kinds and not {int, float, bool} & set(kinds) and self.raw[:1] not in {'"', "'"}:
            return self.raw
        if any(typing.get_origin(part) in (list, tuple, set, frozenset) for part in kinds) and self.raw[:1] != "[":
            return [part.strip() for part in self.raw.split(",") if part.strip()]
        return self._toml()

    def _toml(self) -> Any:
        # An unquoted string, which is invalid TOML, is read as if it were quoted.
        try:
            document = tomllib.loads(f"value = {self.raw}")
        except tomllib.TOMLDecodeError:
            return self.raw
        return document["value"] if len(document) == 1 else self.raw


@dataclass(frozen=True, slots=True)
class _Setting:
    origin: str
    kind: Any


def fit(table: dict[str, Any], kind: type[T], path: str, source: str) -> T:
    """Convert `table` to `kind`; ConfigError with the setting's path and its origin, by default `source`."""
    seen: dict[str, _Setting] = {}
    plain = _plain(table, kind, path, source, seen)
    try:
        return msgspec.convert(plain, kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        full = path + (place["path"] if place else "")
        setting = next((raw for at, raw in seen.items() if full == at or full.startswith((at + ".", at + "["))), None)
        if setting is None:
            # A check of the struct itself, which has no place and names the setting in backticks.
            named = (seen.get(f"{full}.{name}") for name in _NAMED.findall(str(error)))
            setting = next(filter(None, named), None)
        origin = setting.origin if setting else source
        hint = _choices(setting) or _missing(str(error), kind, full)
        raise ConfigError(f"{full}: {_reason(error, place)}{_in(origin)}", hint=hint) from None


def _plain(table: dict[str, Any], kind: Any, path: str, source: str, seen: dict[str, _Setting]) -> dict[str, Any]:
    """Parse strings, spell keys as the struct does, and reject unknown keys, and fields whose keys are the same."""
    fields: dict[str, Any] = {}
    for info in msgspec.structs.fields(kind):
        other = fields.setdefault(canonical(info.encode_name), info)
        if other is not info:
            raise ConfigError(
                f"{path}: the fields `{other.encode_name}` and `{info.encode_name}` of {kind.__name__} are one setting",
                hint="rename one: case, `-` and `_` make no difference in the names of settings",
            )
    plain: dict[str, Any] = {}
    for key, value in table.items():
        field = fields.get(canonical(key))
        if field is None and (secret := _secret_of(key, fields)) is not None and isinstance(value, RawValue):
            if any(canonical(other) == canonical(secret.encode_name) for other in table):
                raise ConfigError(
                    f"{path}.{secret.encode_name}: given twice, as a text and as a file{_in(value.origin)}"
                )
            plain[secret.encode_name] = _read_secret(value.raw, f"{path}.{secret.encode_name}", value.origin)
            continue
        if field is None:
            origin = value.origin if isinstance(value, RawValue) else source
            names = [known.encode_name for known in fields.values()]
            raise ConfigError(f"{path}.{key}: unknown setting{_in(origin)}", hint=suggest(key, names))
        plain[field.encode_name] = _resolve(value, field.type, f"{path}.{field.encode_name}", source, seen)
    return plain


def _resolve(value: Any, kind: Any, path: str, source: str, seen: dict[str, _Setting]) -> Any:
    if Secret in alternatives(kind):
        return _secret(value, path, source, seen)
    if isinstance(value, dict):
        nested = [part for part in alternatives(kind) if isinstance(part, type) and issubclass(part, msgspec.Struct)]
        if len(nested) == 1:
            return _plain(value, nested[0], path, source, seen)
        below = next((typing.get_args(part)[1] for part in alternatives(kind) if typing.get_origin(part) is dict), Any)
        return {key: _resolve(part, below, f"{path}.{key}", source, seen) for key, part in value.items()}
    seen[path] = _Setting(value.origin if isinstance(value, RawValue) else source, kind)
    return value.value_for(kind) if isinstance(value, RawValue) else value


def _secret_of(key: str, fields: dict[str, msgspec.structs.FieldInfo]) -> msgspec.structs.FieldInfo | None:
    """Return the secret setting whose file `key` names, None if there is none."""
    field = fields.get(canonical(key).removesuffix(_FILE)) if canonical(key).endswith(_FILE) else None
    return field if field is not None and Secret in alternatives(field.type) else None


def _secret(value: Any, path: str, source: str, seen: dict[str, _Setting]) -> Any:
    """Return the secret that is given as a text, or as a table with the path of its file."""
    seen[path] = _Setting(value.origin if isinstance(value, RawValue) else source, Secret)
    if isinstance(value, dict):
        if value.keys() != {"file"} or not isinstance(value["file"], (str, RawValue)):
            raise ConfigError(f'{path}: expected a text, or `{{file = "/path"}}`{_in(source)}')
        file = value["file"]
        origin = file.origin if isinstance(file, RawValue) else source
        return _read_secret(file.raw if isinstance(file, RawValue) else file, path, origin)
    if isinstance(value, RawValue):
        if value.origin.startswith(_COMMAND_LINE):
            log.warning("%s is a secret, and `ps` shows what is given with --set; use the environment or a file", path)
        return value.value_for(Secret)
    return value


def _read_secret(file: str, path: str, origin: str) -> Secret:
    """Return the content of a secret's file, without the end of its last line."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read `{file}`: {error.strerror or error}{_in(origin)}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: `{file}` is not UTF-8{_in(origin)}") from None
    return Secret(text.removesuffix("\n").removesuffix("\r"))


def _choices(setting: _Setting | None) -> str | None:
    kinds = alternatives(setting.kind) if setting else ()
    choices = [str(choice) for part in kinds if typing.get_origin(part) is Literal for choice in typing.get_args(part)]
    choices += [
        str(member.value) for part in kinds if isinstance(part, type) and issubclass(part, Enum) for member in part
    ]
    return f"one of: {', '.join(choices)}" if choices else None


def _missing(error: str, kind: Any, path: str) -> str | None:
    """Return how to give the secret that a plugin requires; None for any other error."""
    match = _REQUIRED.match(error)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    if match is None or match[1] not in fields or Secret not in alternatives(fields[match[1]].type):
        return None
    plugin = path.rpartition(".")[2]
    variable = f"CTRLHOST_{path}__{match[1]}".replace(".", "__").replace("-", "_").upper()
    return (
        f"give it as the environment variable {variable}, or the path of its file as {variable}_FILE; for a cluster, "
        f"`ctrlhost manifests --secret {plugin}.{match[1]}=SECRET/KEY`"
    )


def alternatives(kind: Any) -> tuple[Any, ...]:
    """Return the types that a union is made of; the type itself if it is none."""
    if typing.get_origin(kind) is typing.Annotated:
        return alternatives(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (Union, types.UnionType):
        return tuple(inner for part in typing.get_args(kind) for inner in alternatives(part))
    return (kind,)


def _decode(kind: type, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, (Duration, Size, Secret)):
        return value if isinstance(value, kind) else kind(value)
    # msgspec expects this of a hook for unsupported types.
    raise NotImplementedError(f"settings cannot be of the type {kind!r}")


def _reason(error: msgspec.ValidationError, place: re.Match[str] | None) -> str:
    reason = str(error)[: place.start()] if place else str(error)
    # No file of settings can have a null.
    reason = reason.replace(" | null`", "`")
    return reason[:1].lower() + reason[1:]


def canonical(name: str) -> str:
    """Return the canonical spelling: lower case with underscores."""
    return name.lower().replace("-", "_")


def _in(origin: str) -> str:
    return f" (in {origin})" if origin else ""
