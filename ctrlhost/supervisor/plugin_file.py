"""A plugin that is a Python file, without a distribution: `ctrlhost run memcached.py`."""

from __future__ import annotations

import ast
import re
import sys
import threading
from abc import ABC, abstractmethod
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlhost.controller.places import HIDDEN, is_standard
from ctrlhost.errors import ConfigError, CtrlhostError, PluginLoadError

if TYPE_CHECKING:
    from types import ModuleType

#: What the names of plugins look like.
NAME = re.compile(r"[a-z][a-z0-9-]*")

#: Guards `sys.path`: a host loads its plugins at once.
_paths = threading.Lock()


class PluginSource(ABC):
    """What a plugin is loaded from. It can be sent to another process."""

    #: The name of the plugin, and where the host finds it.
    name: str
    __name__: str
    #: The file; None for a module.
    path: Path | None

    @property
    def wants_process(self) -> bool:
        """Whether it runs in a process of its own unless the settings say otherwise."""
        return False

    @property
    def argument(self) -> str:
        """The argument of `ctrlhost run` for it in a pod; empty for what has to be installed there."""
        return ""

    @abstractmethod
    def load(self) -> object:
        """Return the module of the plugin, or an object with hooks; PluginLoadError if that fails."""


class PluginFile(PluginSource):
    """A Python file that holds a plugin, named after the file: `my_operator.py` is the plugin `my-operator`."""

    path: Path

    def __init__(self, path: Path) -> None:
        """Check the name, and that there is such a file; this imports nothing. ConfigError if one of them is wrong."""
        self.path = path.resolve()
        self.name = path.stem.replace("_", "-")
        #: By this attribute the host finds the name of a plugin.
        self.__name__ = self.name
        #: The directories to put on `sys.path`: those of all files of a host, in the order of the command line.
        self.folders = [str(self.path.parent)]
        if path.suffix != ".py":
            raise ConfigError(f"{path}: not a Python file", hint="`--plugins NAME` runs installed plugins")
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        if not NAME.fullmatch(self.name):
            raise ConfigError(
                f"{path}: invalid name `{self.name}` of a plugin: it must match `{NAME.pattern}`",
                hint="a file is the plugin of its name, with `-` for `_`; rename it",
            )

    def __str__(self) -> str:
        """Return the path."""
        return str(self.path)

    def load(self) -> ModuleType:
        """Import the file as the module of its name, with its directory on `sys.path`, as `python FILE` has it.

        PluginLoadError if the import fails, or finds another module of the name, or if a module beside the file that it
        imports has the name of one beside an earlier file: another attempt would do no better.
        """
        stem = self.path.stem
        self._check_helpers()
        with _paths:
            for folder in reversed(self.folders):
                if folder not in sys.path:
                    sys.path.insert(0, folder)
            invalidate_caches()
        try:
            module = import_module(stem)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            message = f"{place_in(str(self.path), error)}: {one_line(error)}"
            raise PluginLoadError(self.name, message, hint=self._hint(error)) from error
        file = getattr(module, "__file__", None)
        if file is None or Path(file).resolve() != self.path:
            raise PluginLoadError(
                self.name,
                f"{self.path}: another module is called `{stem}`: {file or 'a part of Python'}",
                hint="rename the file",
            )
        return module

    def _check_helpers(self) -> None:
        """Raise PluginLoadError for an import that would find the module beside another file than this one."""
        seen, sources = {self.path.stem}, [self.path]
        while sources:
            for name in imports_of(sources.pop()) - seen:
                seen.add(name)
                own = _module_in(self.path.parent, name)
                if own is None:
                    continue
                first = next(path for folder in self.folders if (path := _module_in(Path(folder), name)) is not None)
                if first != own:
                    raise PluginLoadError(
                        self.name,
                        f"{self.path} imports `{name}`, which is both {first} and {own}",
                        hint="rename one of them: the files of a host share what they import",
                    )
                sources.append(own)

    def _hint(self, error: BaseException) -> str:
        if isinstance(error, CtrlhostError) and error.hint:
            return error.hint
        if isinstance(error, ModuleNotFoundError):
            return f"correct the name, install it for {sys.executable}, or put the module beside the file"
        return f"correct the line; `python {self.path.name}` shows the whole error"


def place_in(source: str, error: BaseException, hidden: tuple[str, ...] = ()) -> str:
    """Return the file and line of an error, and in brackets the line that failed in what the file imports.

    `source` is what is loaded; lines in the folders `hidden` do not count.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    place, further, traceback = source, "", error.__traceback__
    while traceback is not None:
        file, line = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        if file == source:
            place, further = f"{file}:{line}", ""
        elif not file.startswith((*HIDDEN, *hidden)) and not is_standard(file):
            further = f" ({file}:{line})"
        traceback = traceback.tb_next
    return place + further


def imports_of(source: Path) -> set[str]:
    """Return the top-level modules that a source imports; none for one that cannot be parsed, which fails later."""
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _module_in(folder: Path, name: str) -> Path | None:
    """Return the source of a top-level module in a folder; None if it has none of the name."""
    return next((path for path in (folder / name / "__init__.py", folder / f"{name}.py") if path.is_file()), None)


def one_line(error: BaseException) -> str:
    """Return an error as one line."""
    text = str(error.msg) if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {text}".rstrip(": ")
