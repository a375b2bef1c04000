"""Find, import and call plugins: the only module that calls pluggy.

Listing reads the metadata of installed distributions and imports nothing. Loading imports only the named plugin, and
`Plugin` has a typed method per hook that calls only this plugin's implementation.
"""

from __future__ import annotations

import difflib
import inspect
import threading
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import pluggy

from ctrlhost import hookspecs
from ctrlhost.errors import PluginLoadError, PluginNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import click
    import msgspec

    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext

GROUP = "ctrlhost"

#: Reserved names: paths of the host's server, sections and tables of the settings, and commands.
RESERVED_NAMES = frozenset(
    """
    admin api assets controllers crds deadlines debug enqueue explain-key healthz host informers livez log-level
    manifests metrics models new pause plugins queue readyz resume run sandbox settings status top version
    """.split()  # noqa: SIM905 - a list of so many strings is not easier to read
)


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """An entry point of the group `ctrlhost`, not imported; `target` is the object that it refers to."""

    name: str
    target: str
    distribution: str
    version: str
    entry_point: EntryPoint = field(compare=False)

    def __str__(self) -> str:
        """Return the distribution as pip shows it."""
        return f"{self.distribution} {self.version}".strip()


def installed_plugins() -> Mapping[str, tuple[InstalledPlugin, ...]]:
    """Return the installed plugins by name, without importing them; two of one name are two entries."""
    # A distribution in two folders of sys.path (an editable install, a bundle) is one plugin.
    found: dict[str, set[InstalledPlugin]] = {}
    for one in entry_points(group=GROUP):
        name, version = (one.dist.name, one.dist.version) if one.dist else ("", "")
        found.setdefault(one.name, set()).add(InstalledPlugin(one.name, one.value, name, version, one))
    return {name: tuple(sorted(found[name], key=str)) for name in sorted(found)}


class PluginImportError(PluginLoadError):
    """The plugin's module cannot be imported; it may be possible later."""


class Plugin:
    """One loaded plugin. Each method calls the hook of that name for this plugin only and raises its errors."""

    def __init__(
        self, name: str, implementation: object, hooks: pluggy.PluginManager, installed: str = "", version: str = ""
    ) -> None:
        """Wrap the only plugin of `hooks`; `installed` is its distribution and version, `version` the latter alone."""
        self.name = name
        self.implementation = implementation
        self.installed = installed
        self.version = version
        self._hooks = hooks

    def _call(self, hook: str, **arguments: Any) -> Any:
        results = getattr(self._hooks.hook, hook)(**arguments)
        return results[0] if results else None

    def implements(self, hook: str) -> bool:
        """Return whether the plugin implements `hook`."""
        callers = self._hooks.get_hookcallers(self.implementation) or ()
        return any(caller.name == hook for caller in callers)

    def settings_type(self) -> type[msgspec.Struct] | None:
        """Return the struct of the plugin's settings; None if it has no settings."""
        import msgspec

        kind = self._call("ctrlhost_settings")
        if kind is not None and not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            raise PluginLoadError(
                self.name, f"ctrlhost_settings returned {kind!r}; it must return a msgspec.Struct class"
            )
        return kind

    def crds(self) -> list[dict[str, Any]]:
        """Return the CustomResourceDefinitions that the plugin owns."""
        crds = list(self._call("ctrlhost_crds") or ())
        for crd in crds:
            if not isinstance(crd, dict) or crd.get("kind") != "CustomResourceDefinition":
                message = f"ctrlhost_crds returned {crd!r:.80}; it must return CustomResourceDefinitions"
                raise PluginLoadError(self.name, message)
        return crds

    def permissions(self, settings: msgspec.Struct | None) -> list[Permission]:
        """Return the permissions that the plugin needs beyond those of its sources."""
        return list(self._call("ctrlhost_permissions", settings=settings) or ())

    def setup(self, context: PluginContext) -> None:
        """Call `ctrlhost_setup`, in which the plugin registers its controllers, tasks, pages and checks."""
        self._call("ctrlhost_setup", plugin=context)

    def synced(self, context: PluginContext) -> None:
        """Notify the plugin that its caches have synced."""
        self._call("ctrlhost_synced", plugin=context)

    def elected(self, context: PluginContext) -> None:
        """Notify the plugin that this replica leads."""
        self._call("ctrlhost_elected", plugin=context)

    def deposed(self, context: PluginContext) -> None:
        """Notify the plugin that this replica no longer leads."""
        self._call("ctrlhost_deposed", plugin=context)

    def stopping(self, context: PluginContext) -> None:
        """Notify the plugin that the host shuts down."""
        self._call("ctrlhost_stopping", plugin=context)

    def commands(self, group: click.Group) -> None:
        """Add the plugin's commands to `group`."""
        self._call("ctrlhost_commands", group=group)


def owned_crds(plugins: Iterable[Plugin]) -> list[dict[str, Any]]:
    """Return the CRDs that the plugins own, each once."""
    found: dict[str, dict[str, Any]] = {}
    for plugin in plugins:
        for crd in plugin.crds():
            found.setdefault(crd["metadata"]["name"], crd)
    return list(found.values())


class PluginManager:
    """The plugins of one host; several managers in a process are independent. Callable from any thread.

    Each plugin has hooks of its own: while the code of one plugin runs, no lock and no list is shared with another.
    """

    def __init__(self) -> None:
        """Start without plugins."""
        self._lock = threading.Lock()
        self._loaded: dict[str, object] = {}

    def load(self, name: str) -> Plugin:
        """Import the installed plugin `name`.

        PluginNotFound if it is not installed; PluginLoadError if it cannot be imported, implements no hook, misspells
        one, or if several distributions have a plugin of this name.
        """
        candidates = installed_plugins().get(name, ())
        if not candidates:
            raise _not_found(name)
        if len(candidates) > 1:
            names = ", ".join(map(str, candidates))
            message = f"{len(candidates)} installed distributions have a plugin of this name: {names}"
            raise PluginLoadError(name, message, hint="uninstall all but one of them")
        (installed,) = candidates
        try:
            implementation = installed.entry_point.load()
        except (Exception, SystemExit) as error:
            raise PluginImportError(
                name,
                f"it could not be imported: {_one_line(error)}",
                hint=f"fix or reinstall {installed.distribution or installed.target}, or drop it from `--plugins`",
            ) from error
        return self.register(name, implementation, str(installed), installed.version)

    def register(self, name: str, implementation: object, installed: str = "", version: str = "") -> Plugin:
        """Register a module or object with hook implementations as the plugin `name`.

        The same one may be registered again under its name: an earlier call may hang in its code.
        """
        if name in RESERVED_NAMES:
            raise PluginLoadError(name, f"invalid plugin name `{name}`: the host reserves it")
        with self._lock:
            if self._loaded.get(name, implementation) is not implementation:
                raise PluginLoadError(name, "another plugin of this name is already loaded")
            if any(other is implementation for known, other in self._loaded.items() if known != name):
                raise PluginLoadError(name, "the same module is already loaded under another name")
            self._loaded[name] = implementation
        try:
            return Plugin(name, implementation, _hooks_of(name, implementation), installed, version)
        except BaseException:
            with self._lock:
                self._loaded.pop(name, None)
            raise


def _hooks_of(name: str, implementation: object) -> pluggy.PluginManager:
    """Return a manager with the hooks of one plugin; PluginLoadError if it has none, or misuses one."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(implementation, name=name)
        manager.check_pending()
    except Exception as error:
        raise PluginLoadError(name, _misuse(implementation, manager, error)) from error
    if not manager.get_hookcallers(implementation):
        message, hint = _no_hooks(implementation)
        raise PluginLoadError(name, message, hint=hint)
    return manager


def check_installed(name: str) -> None:
    """Raise PluginNotFound if no plugin of that name is installed; this imports nothing."""
    if name not in installed_plugins():
        raise _not_found(name)


def _not_found(name: str) -> PluginNotFound:
    known = list(installed_plugins())
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        hint = f"did you mean `{near[0]}`?"
    else:
        hint = f"install it with `pip install ctrlhost-{name}`, or drop it from `--plugins`"
    if known:
        hint += f" (installed: {', '.join(known)})"
    return PluginNotFound(name, f"plugin `{name}` is not installed", hint=hint)


def hook_names() -> list[str]:
    """Return the names of all hooks, in the order of hookspecs.py."""
    return [name for name in vars(hookspecs) if name.startswith("ctrlhost_")]


def _misuse(implementation: object, manager: pluggy.PluginManager, error: Exception) -> str:
    """Describe in one line the marked function that is no hook, or has a parameter that its hook lacks."""
    known = hook_names()
    for name in dir(implementation):
        if manager.parse_hookimpl_opts(implementation, name) is None:
            continue
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            return f"there is no hook `{name}`" + (f"; did you mean `{near[0]}`?" if near else "")
        allowed = inspect.signature(getattr(hookspecs, name)).parameters
        extra = [p for p in inspect.signature(getattr(implementation, name)).parameters if p not in allowed]
        if extra:
            return f"`{name}` takes `{extra[0]}`, but the hook's parameters are ({', '.join(allowed)})"
    return _one_line(error)


def _no_hooks(implementation: object) -> tuple[str, str]:
    unmarked = [name for name in hook_names() if callable(getattr(implementation, name, None))]
    if unmarked:
        return f"`{unmarked[0]}` is not marked as a hook", "put `@ctrlhost.hookimpl` above it"
    return "it implements no hook", "a plugin needs at least `ctrlhost_setup`, marked with `@ctrlhost.hookimpl`"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ImportError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


def name_of(implementation: object) -> str:
    """Return the plugin name of a module or object that is passed to the host: `ctrlhost_foo` is `foo`."""
    # Not `getattr`: a property would run the plugin's code on the caller's thread.
    given = inspect.getattr_static(implementation, "__name__", None)
    name = given if isinstance(given, str) and given else type(implementation).__name__
    return str(name).rpartition(".")[2].removeprefix("ctrlhost_").replace("_", "-").lower()
