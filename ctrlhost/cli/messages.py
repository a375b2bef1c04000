"""Output of commands: data as YAML on stdout; errors on stderr, one line for the error and one for a hint."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

import click

from ctrlhost.errors import ConfigError, CtrlhostError, PluginError, PluginNotFound
from ctrlhost.yaml_text import dump_document

if TYPE_CHECKING:
    from collections.abc import Iterable

FAILURE = 1
USAGE = 2


def print_error(error: BaseException | str, *, hint: str | None = None, code: int | None = None) -> int:
    """Print `error: …`, and `hint: …` if there is a hint, to stderr; return `code`, by default that of the error.

    If CTRLHOST_DEBUG is set, the traceback comes first.
    """
    if isinstance(error, BaseException) and os.environ.get("CTRLHOST_DEBUG"):
        traceback.print_exception(error)
    print(f"error: {describe(error)}", file=sys.stderr)
    hint = hint or getattr(error, "hint", None)
    if hint:
        print(file=sys.stderr)
        print_hint(hint)
    sys.stderr.flush()
    if code is not None:
        return code
    return USAGE if isinstance(error, (ConfigError, PluginNotFound)) else FAILURE


def print_hint(hint: str) -> None:
    """Print `hint: …` to stderr."""
    print(f"hint: {hint}", file=sys.stderr)


def describe(error: BaseException | str) -> str:
    """Return the error as one line."""
    if isinstance(error, str):
        return " ".join(error.split())
    text = " ".join(str(error).split())
    if isinstance(error, PluginError) and not isinstance(error, PluginNotFound):
        return f"plugin `{error.plugin}`: {text}"
    if isinstance(error, CtrlhostError):
        return text
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {text}".rstrip(": ")


def print_yaml(documents: Iterable[Any]) -> None:
    """Print each document as YAML on stdout, after a line `---`."""
    for document in documents:
        click.echo("---")
        click.echo(dump_document(document), nl=False)
