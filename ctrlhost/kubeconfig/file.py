"""Read kubeconfig files into entries that record their location, so that each error names file and entry."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctrlhost.errors import ConfigError
from ctrlhost.yaml_text import load_document


class Entry:
    """One mapping of a kubeconfig, with its file and its path in it."""

    def __init__(self, value: Any, file: Path, where: str) -> None:
        """Wrap a mapping; ConfigError for any other value."""
        if not isinstance(value, Mapping):
            raise ConfigError(f"kubeconfig {file}: {where} must be a mapping, got {_kind(value)}")
        self.value: Mapping[str, Any] = value
        self.file_name = file
        self.where = where

    def error(self, name: str, problem: str) -> ConfigError:
        """Return the error for a problem with the field `name`."""
        return ConfigError(f"kubeconfig {self.file_name}: {self.where}.{name} {problem}")

    def has(self, name: str) -> bool:
        """Return whether the field is present and not empty."""
        return bool(self.value.get(name))

    def text(self, name: str) -> str:
        """Return a required string."""
        text = self.optional_text(name)
        if not text:
            raise self.error(name, "is missing")
        return text

    def optional_text(self, name: str) -> str | None:
        """Return a string, None if it is missing."""
        value = self.value.get(name)
        if value is None or isinstance(value, str):
            return value or None
        raise self.error(name, f"must be a string, got {_kind(value)}")

    def flag(self, name: str) -> bool:
        """Return a boolean, False if it is missing."""
        value = self.value.get(name, False)
        if isinstance(value, bool):
            return value
        raise self.error(name, f"must be true or false, got {_kind(value)}")

    def file(self, name: str) -> str | None:
        """Return the path of a file that must exist; a relative one is relative to the kubeconfig's folder."""
        text = self.optional_text(name)
        if text is None:
            return None
        path = self.file_name.parent / Path(text).expanduser()
        if not path.is_file():
            raise self.error(name, f"names {path}, which does not exist")
        return str(path)

    def base64(self, name: str) -> str | None:
        """Return the decoded text of a `…-data` field."""
        text = self.optional_text(name)
        if text is None:
            return None
        try:
            # Comments may be in any encoding, which this one keeps.
            return base64.b64decode("".join(text.split()), validate=True).decode("latin-1")
        except ValueError as error:
            raise self.error(name, f"must be PEM in base64: {error}") from error

    def entry(self, name: str) -> Entry:
        """Return the mapping in the field `name`."""
        return Entry(self.value.get(name), self.file_name, f"{self.where}.{name}")


class KubeConfig:
    """One or more kubeconfig files, merged."""

    def __init__(self) -> None:
        """Start without files."""
        self.current = ""
        self._paths: list[Path] = []
        self._named: dict[str, dict[str, Entry]] = {"clusters": {}, "contexts": {}, "users": {}}

    @classmethod
    def read(cls, paths: list[Path]) -> KubeConfig:
        """Read the files in order; the first one that defines a name wins, as for kubectl.

        Files with nothing but comments are skipped; ConfigError if all are such.
        """
        config = cls()
        for path in paths:
            content = _parse(path)
            if content is not None:
                config._add(path, content)
        if not config._paths:
            what = "the file is empty" if len(paths) == 1 else "all of these files are empty"
            raise ConfigError(f"kubeconfig {', '.join(map(str, paths))}: {what}")
        return config

    def context(self, name: str | None) -> tuple[str, Entry]:
        """Return the context of that name, or the current one, with its name."""
        wanted = name or self.current
        entry = self._named["contexts"].get(wanted)
        if entry is None:
            files = ", ".join(map(str, self._paths))
            known = ", ".join(sorted(self._named["contexts"])) or "none"
            problem = f"there is no context `{wanted}`" if wanted else "no current-context is set"
            raise ConfigError(f"kubeconfig {files}: {problem}", hint=f"choose one with `--context`; it has {known}")
        return wanted, entry

    def named(self, section: str, name: str, context: Entry) -> Entry:
        """Return the cluster or user that a context names."""
        entry = self._named[section].get(name)
        if entry is None:
            raise context.error(section[:-1], f"names `{name}`, which is not in {section}")
        return entry

    def _add(self, path: Path, content: Any) -> None:
        self._paths.append(path)
        top = Entry(content, path, "the file")
        current = content.get("current-context")
        if current is not None and not isinstance(current, str):
            raise ConfigError(f"kubeconfig {path}: current-context must be a string, got {_kind(current)}")
        self.current = self.current or current or ""
        for section, entries in self._named.items():
            listed = top.value.get(section) or []
            if not isinstance(listed, list):
                raise ConfigError(f"kubeconfig {path}: {section} must be a list, got {_kind(listed)}")
            for position, item in enumerate(listed):
                where = f"{section}[{position}]"
                name = Entry(item, path, where).text("name")
                single = section[:-1]
                # An empty user entry is a user without credentials.
                inner = item.get(single) if section != "users" else item.get(single) or {}
                entries.setdefault(name, Entry(inner, path, f"{section}[{name}].{single}"))


def _parse(path: Path) -> Any:
    import yaml

    try:
        with path.open("rb") as stream:
            content = load_document(stream)
    except OSError as error:
        hint = (
            "name another with `--kubeconfig FILE` or $KUBECONFIG; `--sandbox` needs none"
            if not path.exists()
            else None
        )
        raise ConfigError(f"kubeconfig {path}: {error.strerror or error}", hint=hint) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(
            f"kubeconfig {path}: {place}{_without_values(error.problem or error.context or '')}"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"kubeconfig {path}: invalid YAML: {_without_values(str(error).splitlines()[0])}") from None
    return content


def _without_values(problem: str) -> str:
    """Return what is wrong without what is quoted from the file, such as a password that begins like a tag."""
    return re.sub(r"""(['"])(?!<)[^'"]{2,}\1""", "`…`", problem)


def _kind(value: Any) -> str:
    numbers = dict.fromkeys((int, float), "a number")
    names = {type(None): "null", str: "a string", list: "a list", bool: "a boolean", **numbers}
    return names.get(type(value), "a mapping" if isinstance(value, Mapping) else type(value).__name__)
