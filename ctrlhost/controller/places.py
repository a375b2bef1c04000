"""The place in a plugin's code where an error occurred, and what of it is its cause."""

from __future__ import annotations

import os
import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

import ctrlhost

if TYPE_CHECKING:
    from types import FrameType, TracebackType

#: Frames in the folders of ctrlhost and pluggy do not help the author of the plugin; "<" is generated code, such as the
#: methods of dataclasses.
HIDDEN = (*(f"{Path(str(package.__file__)).parent}{os.sep}" for package in (ctrlhost, pluggy)), "<")

#: Where Python's own modules are, and the folders in it that hold those of others.
_STANDARD_LIBRARY, _PACKAGES = f"{sysconfig.get_path('stdlib')}{os.sep}", f"-packages{os.sep}"

#: What is between the line of a plugin and that of the library that it called.
_CALLING = ", calling "

#: The top-level packages of the plugins that are installed and loaded.
_plugins: set[str] = set()


def add_plugin(module: str) -> None:
    """Count the package of this module to the plugins' own code, although it is installed. Callable from any thread."""
    _plugins.add(module.partition(".")[0])


def is_standard(file: str) -> bool:
    """Return whether a file is of Python's standard library."""
    return file.startswith(_STANDARD_LIBRARY) and _PACKAGES not in file


def place_of(traceback: TracebackType | None) -> str:
    """Return the innermost frame of the plugins' own code as `package/file.py:line`, and what of a library it called.

    Without such a frame the innermost one of a library; empty if there are only frames of ctrlhost.
    """
    own = library = ""
    while traceback is not None:
        frame = traceback.tb_frame
        file = frame.f_code.co_filename
        if not file.startswith(HIDDEN):
            place = f"{_name_of(frame)}:{traceback.tb_lineno}"
            if _is_library(frame):
                library = place
            else:
                own, library = place, ""
        traceback = traceback.tb_next
    return f"{own}{_CALLING}{library}" if own and library else own or library


def cause_of(place: str) -> str:
    """Return the part of a place by which errors are grouped: without the line of a library that the plugin called."""
    return place.partition(_CALLING)[0]


def is_in_plugin(traceback: TracebackType | None) -> bool:
    """Return whether a frame of a traceback is of the plugins' own code."""
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(HIDDEN) and not _is_library(traceback.tb_frame):
            return True
        traceback = traceback.tb_next
    return False


@lru_cache(maxsize=1000)
def name_of_file(file: str) -> str:
    """Return a file below its top-level package, such as `shop/controller.py`; outside of packages its name alone."""
    path = Path(file)
    folder, name = path.parent, path.name
    while folder != folder.parent and (folder / "__init__.py").is_file():
        folder, name = folder.parent, f"{folder.name}/{name}"
    return name


def _is_library(frame: FrameType) -> bool:
    file, module = frame.f_code.co_filename, frame.f_globals.get("__name__") or ""
    return is_standard(file) or (_PACKAGES in file and module.partition(".")[0] not in _plugins)


def _name_of(frame: FrameType) -> str:
    """Return the file of a frame below the top-level package of its module."""
    file = Path(frame.f_code.co_filename)
    package = frame.f_globals.get("__package__") or ""
    return "/".join([*package.split("."), file.name]) if package else file.name
