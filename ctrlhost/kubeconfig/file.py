"""Read kubeconfig files into entries that know their own place, so that each complaint names file and entry."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctrlhost.errors import ConfigError


class Entry:
    """One mapping of a kubeconfig, with the file it stands in and the path to it."""

    def __init__(self, value: Any, file: Path, where: str) -> None:
        """Take a value that must be a mapping."""
        if not isinstance(value, Mapping):
            raise ConfigError(f"kubeconfig {file}: {where} must be a mapping, not {_kind(value)}")
        self.value: Mapping[str, Any] = value
        self.file_name = file
        self.where = where

    def error(self, name: str, problem: str) -> ConfigError:
        """Make the error that says what is wrong with the field `name`."""
        return ConfigError(f"kubeconfig {self.file_name}: {self.where}.{name} {problem}")

    def has(self, name: str) -> bool:
        """Tell whether the field is there and not empty."""
        return bool(self.value.get(name))

    def text(self, name: str) -> str:
        """Give a text that must be there."""
        found = self.optional_text(name)
        if not found:
            raise self.error(name, "is missing")
        return found

    def optional_text(self, name: str) -> str | None:
        """Give a text, None where there is none."""
        found = self.value.get(name)
        if found is None or isinstance(found, str):
            return found or None
        raise self.error(name, f"must be a text, not {_kind(found)}")

    def flag(self, name: str) -> bool:
        """Give a boolean, False where there is none."""
        found = self.value.get(name, False)
        if isinstance(found, bool):
            return found
        raise self.error(name, f"must be true or false, not {_kind(found)}")

    def file(self, name: str) -> str | None:
        """Give the path of a file that must exist; relative ones start at the kubeconfig's folder."""
        found = self.optional_text(name)
        if found is None:
            return None
        path = self.file_name.parent / Path(found).expanduser()
        if not path.is_file():
            raise self.error(name, f"names {path}, which does not exist")
        return str(path)

    def base64(self, name: str) -> str | None:
        """Give the text that a `…-data` field holds."""
        found = self.optional_text(name)
        if found is None:
            return None
        try:
            return base64.b64decode("".join(found.split()), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError, ValueError) as error:
            raise self.error(name, f"is no base64 of a PEM text: {error}") from error

    def entry(self, name: str) -> Entry:
        """Give the mapping below this one."""
        return Entry(self.value.get(name), self.file_name, f"{self.where}.{name}")


class KubeConfig:
    """Several files read as one."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.current = ""
        self._paths: list[Path] = []
        self._named: dict[str, dict[str, Entry]] = {"clusters": {}, "contexts": {}, "users": {}}

    @classmethod
    def read(cls, paths: list[Path]) -> KubeConfig:
        """Read the files in order; a name that an earlier one defines stays as it is."""
        config = cls()
        for path in paths:
            config._add(path, _parse(path))
        return config

    def context(self, name: str | None) -> tuple[str, Entry]:
        """Give the context of that name, or the current one."""
        wanted = name or self.current
        known = sorted(self._named["contexts"])
        listed = f"it has {', '.join(known)}" if known else "it has none"
        if not wanted:
            raise ConfigError(
                f"kubeconfig {self._files()}: no current-context is set", hint=f"name one with `--context`; {listed}"
            )
        if wanted not in self._named["contexts"]:
            raise ConfigError(
                f"kubeconfig {self._files()}: there is no context `{wanted}`",
                hint=f"name another with `--context`; {listed}",
            )
        return wanted, self._named["contexts"][wanted]

    def named(self, section: str, name: str, asked_by: Entry) -> Entry:
        """Give a cluster or user that a context names."""
        found = self._named[section].get(name)
        if found is None:
            raise asked_by.error(section[:-1], f"names `{name}`, which is not in {section}")
        return found

    def _files(self) -> str:
        return ", ".join(map(str, self._paths))

    def _add(self, path: Path, content: Any) -> None:
        self._paths.append(path)
        top = Entry(content, path, "the file")
        current = content.get("current-context")
        if current is not None and not isinstance(current, str):
            raise ConfigError(f"kubeconfig {path}: current-context must be a text, not {_kind(current)}")
        self.current = self.current or current or ""
        for section, entries in self._named.items():
            listed = top.value.get(section) or []
            if not isinstance(listed, list):
                raise ConfigError(f"kubeconfig {path}: {section} must be a list, not {_kind(listed)}")
            for position, item in enumerate(listed):
                where = f"{section}[{position}]"
                name = Entry(item, path, where).text("name")
                single = section[:-1]
                # A user entry without content is a user without credentials.
                inner = item.get(single) if section != "users" else item.get(single) or {}
                entries.setdefault(name, Entry(inner, path, f"{section}[{name}].{single}"))


def _parse(path: Path) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with path.open("rb") as stream:
            content = yaml.load(stream, Loader=loader)  # noqa: S506 - both loaders are the safe one
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: {error.strerror or error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"kubeconfig {path}: {place}{error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"kubeconfig {path}: is no YAML: {str(error).splitlines()[0]}") from error
    if content is None:
        raise ConfigError(f"kubeconfig {path}: the file is empty")
    return content


def _kind(value: Any) -> str:
    names = {
        type(None): "nothing",
        str: "a text",
        list: "a list",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "a mapping" if isinstance(value, Mapping) else type(value).__name__)
