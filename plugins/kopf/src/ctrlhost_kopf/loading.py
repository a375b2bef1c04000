"""Imports the file or module of an operator, in which `import kopf` is this package: the framework `kopf`."""

from __future__ import annotations

import ast
import contextvars
import importlib
import signal
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ctrlhost
import ctrlhost_kopf
from ctrlhost_kopf import registry, running
from ctrlhost_kopf.plugin import Operator
from ctrlhost_kopf.unsupported import NotSupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

#: The functions by which a file runs its operator itself.
_RUNS = frozenset({"run", "operator", "spawn_tasks"})
#: One at a time: files share `sys.path`, and the modules beside them.
_lock = threading.Lock()
_folders: list[Path] = []


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
    handlers = registry.OperatorRegistry()
    operator = Operator(handlers, name)
    errors: list[BaseException] = []
    ended = threading.Event()

    def body() -> None:
        registry.current.set(handlers)
        running.set_current(operator)
        try:
            _execute(source, name)
        except BaseException as error:  # noqa: BLE001 - it is raised again, or logged
            if operator.claimed.is_set() and not isinstance(error, SystemExit):
                running.log.exception("%s: the file has failed beside its operator", name)
            errors.append(error)
        finally:
            ended.set()
            operator.claimed.set()

    with _lock:
        _replace_kopf()
        before = set(sys.modules)
        thread = threading.Thread(
            target=contextvars.copy_context().run, args=(body,), name=f"{name} import", daemon=True
        )
        thread.start()
        operator.claimed.wait()
        operator.sources = _sources(source, before)
        operator.libraries = {library for path in operator.sources for library in imports_of(path)}
    if ended.is_set() and errors:
        raise _explained(errors[0])
    if ended.is_set() and operator.registry.is_empty:
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
    """Let `import kopf` find this package, whether kopf is installed or not."""
    if sys.modules.get("kopf") is ctrlhost_kopf:
        return
    for known in [known for known in sys.modules if known.partition(".")[0] == "kopf"]:
        del sys.modules[known]
    for public in ("", ".on", ".lifecycles"):
        sys.modules[f"kopf{public}"] = importlib.import_module(f"ctrlhost_kopf{public}")
    sys.meta_path.insert(0, _PrivateModules())


def _execute(source: str, name: str) -> None:
    if not source.endswith(".py"):
        _prepend(Path.cwd())
        importlib.import_module(source)
        return
    path = Path(source)
    _prepend(path.parent)
    # Not the name of the file, which may be that of another module.
    module_name = f"__kopf_script_{name}__"
    if _runs_itself(path):
        module_name = "__main__"
        _ignore_signals()
    spec = spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} cannot be imported")
    module = sys.modules[module_name] = module_from_spec(spec)
    spec.loader.exec_module(module)


def _ignore_signals() -> None:
    """Let files that run their operator itself register handlers of signals, which Python refuses to their threads.

    Without effect: the host ends the operator. Those of a loop are registered by the same functions.
    """

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


def _runs_itself(path: Path) -> bool:
    """Return whether a file imports `kopf` and calls what runs an operator."""
    tree = ast.parse(path.read_bytes(), path)
    if "kopf" not in imports_of(path):
        return False
    called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        (isinstance(function, ast.Attribute) and function.attr in _RUNS and _is_kopf(function.value))
        for function in called
    )


def _is_kopf(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "kopf"


def imports_of(path: Path) -> set[str]:
    """Return the top-level modules that a source imports, also within functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes(), path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _sources(source: str, before: Sequence[str] | set[str]) -> list[Path]:
    """Return the file, and those that it has imported from its own folder."""
    if source.endswith(".py"):
        first = Path(source)
    else:
        spec = find_spec(source)
        first = Path(spec.origin) if spec is not None and spec.origin else Path()
    imported = (getattr(sys.modules.get(name), "__file__", None) for name in set(sys.modules) - set(before))
    beside = {
        path for file in imported if file and (path := Path(file)).suffix == ".py" and first.parent in path.parents
    }
    return [first, *sorted(beside - {first})]
