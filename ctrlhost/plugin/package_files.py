"""YAML files of a plugin's package."""

from __future__ import annotations

from copy import deepcopy
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlhost.yaml_text import load_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.resources.abc import Traversable


def objects_in(package: str, patterns: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the objects of a package's files with the names of these, in the order of the patterns and the names.

    Patterns are as for `crds_from`. FileNotFoundError if one matches no file; ValueError for a file that is not YAML,
    or has something else than objects.
    """
    for pattern in patterns:
        matching = list(_matching(_folder(package), pattern.split("/"), package))
        if not matching:
            raise FileNotFoundError(f"no file `{pattern}` in the package {package}; is it in the wheel?")
        for name, file in matching:
            for obj in _read(name, file.read_bytes()):
                yield name, deepcopy(obj)


def _folder(name: str) -> Traversable:
    module = import_module(name)
    package = module.__name__ if hasattr(module, "__path__") else module.__package__
    return resources.files(package) if package else Path(str(module.__file__)).parent


def _matching(folder: Traversable, steps: list[str], name: str) -> Iterator[tuple[str, Traversable]]:
    """Return the files that the steps of a pattern match, sorted, with their names for messages."""
    step, *below = steps
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not fnmatchcase(entry.name, step):
            continue
        if below and entry.is_dir():
            yield from _matching(entry, below, f"{name}/{entry.name}")
        elif not below and entry.is_file():
            yield f"{name}/{entry.name}", entry


@lru_cache(maxsize=64)
def _read(file: str, text: bytes) -> list[dict[str, Any]]:
    """Return the objects in the text of a file; kept, since a start asks several times."""
    try:
        return load_objects(text)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
