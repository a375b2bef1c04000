"""Operators that are written for another framework: `ctrlhost run --kopf memcached.py`.

A framework is an entry point of the group `ctrlhost.frameworks`. Its function is called with the path of a file, or the
dotted name of a module, and the name of the plugin, and returns what a `Host` takes as a plugin: an object with hooks.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from ctrlhost.errors import ConfigError, PluginLoadError
from ctrlhost.supervisor.loader import FRAMEWORKS
from ctrlhost.supervisor.plugin_file import NAME, PluginSource, imports_of, one_line, place_in


def frameworks() -> dict[str, EntryPoint]:
    """Return the installed frameworks by name, without importing them."""
    return {entry_point.name: entry_point for entry_point in entry_points(group=FRAMEWORKS)}


class ForeignPlugin(PluginSource):
    """A file or module of another framework: the plugin of its name, `-` for `_` and `.`, in a process of its own.

    The module `__main__` of a package is the plugin of the package's name. If its file imports the package of the
    framework under its own name, it runs in the host's process.
    """

    def __init__(self, framework: str, source: str) -> None:
        """Check the name, and that there is such a file; this imports nothing. ConfigError if one of them is wrong."""
        self.framework = framework
        is_file = source.endswith(".py")
        #: The file; None for a module.
        self.path = Path(source).resolve() if is_file else None
        #: The path, or the dotted name of the module.
        self.source = str(self.path) if is_file else source
        self.name = re.sub(r"[._]", "-", (Path(source).stem if is_file else source.removesuffix(".__main__")).lower())
        #: By this attribute the host finds the name of a plugin.
        self.__name__ = self.name
        if self.path is not None and not self.path.is_file():
            raise ConfigError(f"{source}: no such file")
        if not NAME.fullmatch(self.name):
            raise ConfigError(
                f"{source}: invalid name `{self.name}` of a plugin: it must match `{NAME.pattern}`",
                hint="an operator is the plugin of its file's or module's name; rename it",
            )

    def __str__(self) -> str:
        """Return the path or the name of the module."""
        return self.source

    @property
    def argument(self) -> str:
        """The argument of `ctrlhost run` in a pod, where the file is in the working directory."""
        return f"--{self.framework}={self.path.name if self.path is not None else self.source}"

    @property
    def wants_process(self) -> bool:
        """Whether it runs in a process of its own: not if the file imports the package of the framework by its name."""
        entry_point = frameworks().get(self.framework)
        if entry_point is None or self.path is None:
            return True
        return entry_point.module.partition(".")[0] not in imports_of(self.path)

    def load(self) -> Any:
        """Return the plugin; PluginLoadError if the import fails, ConfigError if the source cannot be supported."""
        entry_point = frameworks().get(self.framework)
        if entry_point is None:
            raise ConfigError(f"{self}: the framework `{self.framework}` is not installed")
        try:
            return entry_point.load()(self.source, self.name)
        except ConfigError as error:
            raise ConfigError(f"{self._place(entry_point, error)}: {error.message}", hint=error.hint) from error
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            message = f"{self._place(entry_point, error)}: {one_line(error)}"
            raise PluginLoadError(self.name, message, hint=getattr(error, "hint", None)) from error

    def _place(self, entry_point: EntryPoint, error: BaseException) -> str:
        package = sys.modules.get(entry_point.module.partition(".")[0])
        own = getattr(package, "__file__", None)
        return place_in(self.source, error, (f"{Path(own).parent}{os.sep}",) if own else ())
