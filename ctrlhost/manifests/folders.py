"""Folders with a file for each object, which a command writes, and later writes anew."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

#: Characters at the begin of a file that say who wrote it.
_HEAD = 300


def file_names(documents: Iterable[dict[str, Any]]) -> list[str]:
    """Return a different name for the file of each object: kind and name, and the namespace where two have these."""
    names: list[str] = []
    for document in documents:
        metadata = document["metadata"]
        kind, name, namespace = document["kind"].lower(), metadata["name"], metadata.get("namespace", "")
        names.append(_free(names, f"{kind}-{name}", f"{kind}-{namespace}-{name}"))
    return names


def _free(taken: Collection[str], *candidates: str) -> str:
    for candidate in candidates:
        name = f"{re.sub('[^A-Za-z0-9._-]', '-', candidate)}.yaml"
        if name not in taken:
            return name
    return _free(taken, f"{candidates[-1]}-{len(taken)}")


def mark(command: str) -> str:
    """Return the line that a file which `command` writes begins with."""
    return f"Written by `{command}`, which overwrites it."


def write_folder(folder: Path, files: Mapping[str, str], command: str) -> None:
    """Write files, by their paths below `folder`, each with the `mark` of `command`; remove others that have it.

    ConfigError, before anything is written, for a file of somebody else in the place of one of these, and if the folder
    cannot be written.
    """
    line = mark(command)
    try:
        for name in files:
            if (path := folder / name).exists() and not _has_mark(path, line):
                raise ConfigError(
                    f"{path}: exists, and `{command}` did not write it", hint="name another folder, or remove the file"
                )
        for parent in {(folder / name).parent for name in files}:
            parent.mkdir(parents=True, exist_ok=True)
            for path in parent.glob("*.yaml"):
                if str(path.relative_to(folder)) not in files and _has_mark(path, line):
                    path.unlink()
        for name, text in files.items():
            marked = text if line in text[:_HEAD] else f"# {line}\n{text}"
            (folder / name).write_text(marked, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {(error.strerror or str(error)).lower()}") from None


def _has_mark(path: Path, line: str) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return line in file.read(_HEAD)
