"""The files that a plugin in development consists of, and whether they have changed."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Code, and manifests such as CRDs. Other files may be what a running plugin writes.
_SUFFIXES = (".py", ".yaml", ".yml")

#: Time, size and number of each file: an editor may replace a file by another one of the same size.
Snapshot: TypeAlias = dict[str, tuple[int, int, int]]


class Sources:
    """Files, and directories of modules. For use by one thread."""

    def __init__(self, files: Iterable[Path], directories: Iterable[Path]) -> None:
        """Watch `files`, what lies in `directories`, and the packages below these."""
        self._files = list(files)
        self._directories = list(directories)

    @classmethod
    def of(cls, files: Iterable[Path], modules: Iterable[str], further: Iterable[Path] = ()) -> Sources:
        """Return the sources of plugins that are `files`, of those in `modules`, and the files `further`."""
        single, directories = list(further), [file.parent for file in files]
        for module in modules:
            # The specification of a top-level module is found without importing anything.
            spec = find_spec(module.partition(".")[0])
            if spec is None:
                continue
            directories += map(Path, spec.submodule_search_locations or ())
            if not spec.submodule_search_locations and spec.origin:
                single.append(Path(spec.origin))
        return cls(single, dict.fromkeys(directories))

    def snapshot(self) -> Snapshot:
        """Return the state of the files now; missing ones are left out."""
        snapshot: Snapshot = {}
        for file in self._files:
            try:
                status = file.stat()
            except OSError:
                continue
            snapshot[str(file)] = (status.st_mtime_ns, status.st_size, status.st_ino)
        for directory in self._directories:
            for entry in _entries(directory):
                try:
                    status = entry.stat()
                except OSError:
                    continue
                snapshot[entry.path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return snapshot


def changes(before: Snapshot, after: Snapshot) -> list[str]:
    """Return the paths of files that were changed, added or removed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _entries(directory: str | Path) -> Iterator[os.DirEntry[str]]:
    """Yield the sources in a directory and in the packages below."""
    try:
        with os.scandir(directory) as scan:
            entries = list(scan)
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(_SUFFIXES):
            yield entry
        elif _may_be_package(entry):
            yield from _entries(entry.path)


def _may_be_package(entry: os.DirEntry[str]) -> bool:
    """Return whether a directory may be part of a package: one with code, or one inside a package, such as `crds`."""
    if not entry.name.isidentifier() or entry.name == "__pycache__":
        return False
    try:
        if not entry.is_dir(follow_symlinks=False):
            return False
    except OSError:
        return False
    parent = Path(entry.path).parent
    return any((directory / "__init__.py").is_file() for directory in (Path(entry.path), parent))
