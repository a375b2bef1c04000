"""CRDs that a plugin's package has as YAML files."""

from __future__ import annotations

from copy import deepcopy
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlhost.yaml_text import load_objects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

#: What the host reads of each CRD; the server has more rules.
_REQUIRED = ("metadata.name", "spec.group", "spec.names.kind", "spec.names.plural")


def crds_from(package: str, *patterns: str) -> list[dict[str, Any]]:
    """Return the CRDs of a package's YAML files as fresh dicts, in the order of the patterns and then of the names.

    ```python
    # a part of a plugin with hooks
    @ctrlhost.hookimpl
    def ctrlhost_crds():
        return ctrlhost.crds_from(__package__, "crds/*.yaml")
    ```

    `package` is the importable name of the package that holds the files, or of a module of it. The files of a module
    without a package are beside it. A pattern is the path of a file, in which `*` and `?` match within a name as in a
    shell. A file may have several documents. May be called from any thread.

    Raises FileNotFoundError if a pattern matches no file. Raises ValueError, which names the file, if one is not YAML,
    has another object, or a CRD without names.
    """
    crds: list[dict[str, Any]] = []
    for pattern in patterns:
        matching = list(_matching(_folder(package), pattern.split("/"), package))
        if not matching:
            raise FileNotFoundError(f"no file `{pattern}` in the package {package}; is it in the wheel?")
        for name, file in matching:
            crds += deepcopy(_read(name, file.read_bytes()))
    return crds


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
    """Return the CRDs in the text of a file; kept, since a start asks several times."""
    try:
        objects = load_objects(text)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    for obj in objects:
        if obj.get("kind") != "CustomResourceDefinition":
            raise ValueError(f"{file} has an object that is not a CustomResourceDefinition")
        if (missing := _missing(obj)) is not None:
            raise ValueError(f"{file}: {missing}: Required value")
    return objects


def _missing(crd: dict[str, Any]) -> str | None:
    """Return the first path that a CRD lacks, or that has no usable value; None for a CRD with all of them."""
    for path in _REQUIRED:
        value: Any = crd
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if not isinstance(value, str) or not value:
            return path
    versions = crd["spec"].get("versions")
    named = isinstance(versions, list) and all(isinstance(version, dict) and "name" in version for version in versions)
    return None if named and versions else "spec.versions"
