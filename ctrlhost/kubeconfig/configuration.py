"""The `kubernetes` package's `Configuration`, without paying for the rest of that package.

Importing `kubernetes` reads its generated models, pydantic and three OAuth libraries: over a second and 25 MB that a
host never uses. Its `Configuration` is one module that needs none of them, so that module is loaded by its file. What
the official client reads into it (proxies of the environment, certificates, hooks that refresh a token) means the same.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from types import ModuleType

_PRIVATE_NAME = "ctrlhost.client._kubernetes_configuration"
_lock = threading.Lock()


def new_configuration(**values: Any) -> Any:
    """Make an empty `kubernetes.client.Configuration` and set `values` on it."""
    configuration = _module().Configuration(host=values.pop("host", None))
    for name, value in values.items():
        if value is not None:
            setattr(configuration, name, value)
    return configuration


def _module() -> ModuleType:
    """Give the module that defines `Configuration`: the one already imported, else its file alone."""
    with _lock:
        for name in ("kubernetes.client.configuration", _PRIVATE_NAME):
            if name in sys.modules:
                return sys.modules[name]
        file = _file()
        if file is None:
            return importlib.import_module("kubernetes.client.configuration")
        spec = importlib.util.spec_from_file_location(_PRIVATE_NAME, file)
        if spec is None or spec.loader is None:
            return importlib.import_module("kubernetes.client.configuration")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_PRIVATE_NAME] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[_PRIVATE_NAME]
            raise
        return module


def _file() -> Path | None:
    spec = importlib.util.find_spec("kubernetes")
    for folder in cast("list[str]", spec.submodule_search_locations or []) if spec else []:
        file = Path(folder) / "client" / "configuration.py"
        if file.is_file():
            return file
    return None
