"""Imports the file or module of an operator, in which `import kopf` is this package: the framework `kopf`."""

from __future__ import annotations

import contextvars
import importlib
import signal
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ctrlhost
import ctrlhost_kopf
from ctrlhost_kopf import registry, running
from ctrlhost_kopf.plugin import Operator
from ctrlhost_kopf.sources import Source
from ctrlhost_kopf.unsupported import NotSupported

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

#: One at a time: files share `sys.path`, and the modules beside them.
_lock = threading.Lock()
_folders: list[Path] = []
_signal = signal.signal


class _PrivateModules(MetaPathFinder):
    """Refuses kopf's own modules, which this package does not have."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> None:  # noqa: ARG002
        """Raise NotSupported for a module of kopf."""
        if fullname.startswith("kopf."):
            raise NotSupported(f"the module `{fullname}`")


def load(source: str, name: str) -> Operator:
    """Import a file, or a module by its dotted name, and return its operator.

    A file that runs its operator itself is run as `python FILE` does, on a thread of its own: it goes on after
    `kopf.run` when the plugin has ended. Raises what the import raises.
    """
    parsed = Source(Path(source)) if source.endswith(".py") else None
    handlers = registry.OperatorRegistry()
    operator = Operator(handlers, name)
    errors: list[BaseException] = []

    def body() -> None:
        registry.current.set(handlers)
        running.set_current(operator)
        try:
            _execute(source, name, parsed)
        except BaseException as error:  # noqa: BLE001 - it is raised again, or logged
            if operator.claimed.is_set() and not isinstance(error, SystemExit):
                running.log.exception("%s: the file has failed beside its operator", name)
            errors.append(error)
        finally:
            operator.executed.set()
            operator.claimed.set()

    with _lock:
        _replace_kopf()
        before = set(sys.modules)
        thread = threading.Thread(
            target=contextvars.copy_context().run, args=(body,), name=f"{name} import", daemon=True
        )
        thread.start()
        operator.claimed.wait()
        operator.sources = _files(source, before)
        parts = [parsed, *map(Source, operator.sources[1:])] if parsed else map(Source, operator.sources)
        operator.libraries = {library for part in parts for library in part.imports}
    if operator.executed.is_set() and errors:
        raise _explained(errors[0])
    if operator.executed.is_set() and operator.registry.is_empty:
        hint = "name what registers them; a package that runs itself is `-m PACKAGE.__main__`"
        raise ctrlhost.ConfigError(f"{source} registers no handlers", hint=hint)
    return operator


def _explained(error: BaseException) -> BaseException:
    """Return the error of an import, as NotSupported if kopf has a name that this package does not have."""
    missing = isinstance(error, ImportError) and error.name == ctrlhost_kopf.__name__
    if missing or (isinstance(error, AttributeError) and error.obj is ctrlhost_kopf):
        return NotSupported(str(error).replace(ctrlhost_kopf.__name__, "kopf")).with_traceback(error.__traceback__)
    return error


def _replace_kopf() -> None:
    """Make `import kopf` find this package, whether kopf is installed or not."""
    if sys.modules.get("kopf") is ctrlhost_kopf:
        return
    for known in [known for known in sys.modules if known.partition(".")[0] == "kopf"]:
        del sys.modules[known]
    for public in ("", ".on", ".lifecycles"):
        sys.modules[f"kopf{public}"] = importlib.import_module(f"ctrlhost_kopf{public}")
    sys.meta_path.insert(0, _PrivateModules())


def _execute(source: str, name: str, parsed: Source | None) -> None:
    if parsed is None:
        _prepend(Path.cwd())
        _ignore_signals()
        importlib.import_module(source)
        return
    _prepend(Path(source).parent)
    if ctrlhost_kopf.__name__ not in parsed.imports:
        # In a process of its own.
        _ignore_signals()
    # Not the name of the file, which may be that of another module.
    module_name = "__main__" if parsed.runs_itself else f"__kopf_script_{name}__"
    spec = spec_from_file_location(module_name, source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} cannot be imported")
    module = sys.modules[module_name] = module_from_spec(spec)
    spec.loader.exec_module(module)


def _ignore_signals() -> None:
    """Accept handlers of signals from operators, which Python refuses to their threads.

    Without effect: the host ends the operator. Those of a loop are registered by the same functions.
    """
    if signal.signal is not _signal:
        return

    def only_on_the_main_thread(fn: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            on_main = threading.current_thread() is threading.main_thread()
            return (fn if on_main else otherwise)(*args, **kwargs)

        return call

    def previous(number: int, _handler: Any) -> Any:
        running.log.info("no effect of the handler of %s: the host ends the operator", signal.Signals(number).name)
        return signal.getsignal(number)

    signal.signal = only_on_the_main_thread(signal.signal, previous)
    signal.set_wakeup_fd = only_on_the_main_thread(signal.set_wakeup_fd, lambda *_, **__: -1)


def _prepend(folder: Path) -> None:
    """Put a folder first on `sys.path`, and forget modules of other operators that have the names of those in it."""
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/")
        others = any(other in file.parents for other in _folders if other != folder)
        top = name.partition(".")[0]
        if others and folder not in file.parents and ((folder / top).is_dir() or (folder / f"{top}.py").is_file()):
            del sys.modules[name]
    _folders.append(folder)
    sys.path[:] = [str(folder), *(entry for entry in sys.path if entry != str(folder))]
    importlib.invalidate_caches()


def _files(source: str, before: set[str]) -> list[Path]:
    """Return the file of the operator, and those that it has imported from its own folder."""
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in (source, *sys.modules.keys() - before)}
    first = Path(source if source.endswith(".py") else files[source] or source)
    beside = {Path(file) for file in files.values() if file and file.endswith(".py")}
    return [first, *sorted(path for path in beside if first.parent in path.parents and path != first)]
