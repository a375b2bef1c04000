"""Errors as people at a prompt and in logs of a job want them: one line that says what, one that says what to do."""

from __future__ import annotations

import os
import sys
import traceback

from ctrlhost.errors import ConfigError, CtrlhostError, PluginError, PluginNotFound

FAILURE = 1
USAGE = 2


def exit_code(error: BaseException) -> int:
    """Give 2 for what the command line or the configuration got wrong, 1 for every other failure."""
    return USAGE if isinstance(error, (ConfigError, PluginNotFound)) else FAILURE


def print_error(error: BaseException | str, *, hint: str | None = None, code: int | None = None) -> int:
    """Write `error: …` and perhaps `hint: …` to stderr and give the exit code.

    With CTRLHOST_DEBUG set the traceback comes first.
    """
    if isinstance(error, BaseException) and os.environ.get("CTRLHOST_DEBUG"):
        traceback.print_exception(error)
    print(f"error: {describe(error)}", file=sys.stderr)
    hint = hint or getattr(error, "hint", None)
    if hint:
        print(f"\nhint: {hint}", file=sys.stderr)
    sys.stderr.flush()
    if code is not None:
        return code
    return exit_code(error) if isinstance(error, BaseException) else FAILURE


def describe(error: BaseException | str) -> str:
    """Give the error as one line."""
    if isinstance(error, str):
        return " ".join(error.split())
    text = " ".join(str(error).split())
    if isinstance(error, PluginNotFound):
        return text
    if isinstance(error, PluginError):
        return f"plugin `{error.plugin}`: {text}"
    if isinstance(error, CtrlhostError):
        return text
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {text}".rstrip(": ")
