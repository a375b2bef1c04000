"""CRDs that a plugin's package has as YAML files."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib import resources
from typing import Any

import yaml


def crds_from(package: str, *patterns: str) -> list[dict[str, Any]]:
    """Return the CRDs of a package's YAML files as fresh dicts, in the order of the patterns and then of the names.

    `package` is the importable name of the package that holds the files, such as `__package__`; a pattern is a file's
    name, in which `*` and `?` match as in a shell. A file may have several documents. FileNotFoundError if a pattern
    matches no file; ValueError, which names the file, if one is not YAML or has another object. For any thread.
    """
    folder = resources.files(package)
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    found: list[dict[str, Any]] = []
    for pattern in patterns:
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise FileNotFoundError(f"no file `{pattern}` in the package {package}; is it in the wheel?")
        for name in matching:
            found += _read(f"{package}/{name}", folder.joinpath(name).read_text(encoding="utf-8"))
    return found


def _read(file: str, text: str) -> list[dict[str, Any]]:
    try:
        objects = [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
        raise ValueError(f"{file} is not valid YAML: {error}") from error
    for one in objects:
        if not isinstance(one, dict) or one.get("kind") != "CustomResourceDefinition":
            raise ValueError(f"{file} has an object that is not a CustomResourceDefinition")
    return objects
