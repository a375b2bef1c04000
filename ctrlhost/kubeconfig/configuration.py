"""The `kubernetes` package's `Configuration`, without importing the rest of that package.

Importing `kubernetes` loads its generated models, pydantic and three OAuth libraries: over a second and 25 MB that a
host never uses. Its `Configuration` is one module that needs none of them, so that module is loaded by its file. The
official client's reading of it (proxies of the environment, certificates, hooks that refresh a token) is unchanged.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

_OFFICIAL_NAME = "kubernetes.client.configuration"
_PRIVATE_NAME = "ctrlhost.kubeconfig._kubernetes_configuration"
_lock = threading.Lock()


def new_configuration(**values: Any) -> Any:
    """Create a `kubernetes.client.Configuration` and set those `values` on it that are not None."""
    configuration = _module().Configuration(host=values.pop("host", None))
    for name, value in values.items():
        if value is not None:
            setattr(configuration, name, value)
    return configuration


def _module() -> ModuleType:
    """Return the module that defines `Configuration`: the one already imported, else its file alone."""
    with _lock:
        for name in (_OFFICIAL_NAME, _PRIVATE_NAME):
            if name in sys.modules:
                return sys.modules[name]
        package = importlib.util.find_spec("kubernetes")
        folders = (package and package.submodule_search_locations) or []
        file = next((file for each in folders if (file := Path(each, "client", "configuration.py")).is_file()), None)
        spec = file and importlib.util.spec_from_file_location(_PRIVATE_NAME, file)
        if not spec or spec.loader is None:
            return importlib.import_module(_OFFICIAL_NAME)
        module = importlib.util.module_from_spec(spec)
        sys.modules[_PRIVATE_NAME] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[_PRIVATE_NAME]
            raise
        return module
