"""The place in a plugin's code where an error occurred."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

import ctrlhost

if TYPE_CHECKING:
    from types import TracebackType

#: Frames in the folders of ctrlhost and pluggy do not help the author of the plugin; "<" is generated code, such as the
#: methods of dataclasses.
HIDDEN = (*(f"{Path(str(package.__file__)).parent}{os.sep}" for package in (ctrlhost, pluggy)), "<")


def place_of(traceback: TracebackType | None) -> str:
    """Return the innermost frame in code of others than ctrlhost as `file:line`; empty if there is none."""
    file, line = "", 0
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not name.startswith(HIDDEN):
            file, line = name, traceback.tb_lineno
        traceback = traceback.tb_next
    return f"{Path(file).name}:{line}" if file else ""
