"""Load the embedded API server, which is a distribution of its own: `ctrlhost-sandbox`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from ctrlhost._core import __version__
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from ctrlhost_sandbox import Sandbox
    from typing_extensions import TypeIs


def load_sandbox() -> ModuleType:
    """Return the package `ctrlhost_sandbox`; ConfigError if it is missing or of another minor version."""
    hint = "install it with `pip install 'ctrlhost[sandbox]'`"
    try:
        package = import_module("ctrlhost_sandbox")
    except ModuleNotFoundError as error:
        if error.name != "ctrlhost_sandbox":
            raise
        raise ConfigError("the sandbox is not installed", hint=hint) from None
    theirs: str = package.__version__
    if theirs.split(".")[:2] != __version__.split(".")[:2]:
        raise ConfigError(f"ctrlhost-sandbox {theirs} does not fit ctrlhost {__version__}", hint=hint)
    return package


def is_sandbox(server: object) -> TypeIs[Sandbox]:
    """Return whether this is a sandbox, without importing the package."""
    package = sys.modules.get("ctrlhost_sandbox")
    return package is not None and isinstance(server, package.Sandbox)


@contextmanager
def sandbox_errors() -> Iterator[None]:
    """Raise what the sandbox refuses as a ConfigError, without importing the package."""
    try:
        yield
    except Exception as error:
        package = sys.modules.get("ctrlhost_sandbox")
        if package is None or not isinstance(error, package.SandboxError):
            raise
        raise ConfigError(error.message, hint=error.hint) from error
