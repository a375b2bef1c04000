"""Finding, importing and calling plugins: the only module that talks to pluggy.

Listing reads the metadata of installed distributions and imports nothing. Loading imports the one plugin that was
named, and `Plugin` has a typed method per hook that calls this plugin's implementation and nobody else's.
"""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import pluggy

from ctrlhost import hookspecs
from ctrlhost.errors import PluginLoadError, PluginNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click
    import msgspec

    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext

GROUP = "ctrlhost"

#: Names that paths of the host's server, sections of the settings or commands have already.
RESERVED_NAMES = frozenset(
    """
    controllers crds debug healthz host livez manifests metrics models new plugins readyz run sandbox top version
    """.split()  # noqa: SIM905 - a list of sixteen texts is no easier to read
)


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """An entry point of the group `ctrlhost`, not imported; `target` is what it points at."""

    name: str
    target: str
    distribution: str
    version: str

    def __str__(self) -> str:
        """Name the distribution as pip does."""
        return f"{self.distribution} {self.version}".strip()


def installed_plugins() -> Mapping[str, tuple[InstalledPlugin, ...]]:
    """Give what is installed, by name and without importing any of it; two under one name are two entries."""
    return {name: tuple(sorted(found, key=str)) for name, found in sorted(_entry_points().items())}


def _entry_points() -> dict[str, dict[InstalledPlugin, EntryPoint]]:
    # A distribution that two folders of sys.path hold (an editable install, a bundle) is one plugin, not two.
    found: dict[str, dict[InstalledPlugin, EntryPoint]] = {}
    for entry_point in entry_points(group=GROUP):
        distribution = entry_point.dist
        plugin = InstalledPlugin(
            entry_point.name,
            entry_point.value,
            distribution.name if distribution else "",
            distribution.version if distribution else "",
        )
        found.setdefault(entry_point.name, {})[plugin] = entry_point
    return found


class Plugin:
    """One loaded plugin. Each method calls the hook of that name for this plugin alone and lets its errors through."""

    def __init__(self, name: str, implementation: object, manager: pluggy.PluginManager, installed: str = "") -> None:
        """Wrap a registered plugin; `installed` says where it came from."""
        self.name = name
        self.implementation = implementation
        self.installed = installed
        self._manager = manager

    def _call(self, hook: str, **arguments: Any) -> Any:
        others = [plugin for plugin in self._manager.get_plugins() if plugin is not self.implementation]
        results = self._manager.subset_hook_caller(hook, others)(**arguments)
        return results[0] if results else None

    def implements(self, hook: str) -> bool:
        """Say whether the plugin has an implementation of `hook`."""
        callers = self._manager.get_hookcallers(self.implementation) or ()
        return any(caller.name == hook for caller in callers)

    def settings_type(self) -> type[msgspec.Struct] | None:
        """Give the struct of the plugin's settings, None where it has none."""
        import msgspec

        kind = self._call("ctrlhost_settings")
        if kind is not None and not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            raise PluginLoadError(self.name, f"ctrlhost_settings gave {kind!r} instead of a msgspec.Struct class")
        return kind

    def crds(self) -> list[dict[str, Any]]:
        """Give the CustomResourceDefinitions that the plugin owns."""
        crds = list(self._call("ctrlhost_crds") or ())
        for crd in crds:
            if not isinstance(crd, dict) or crd.get("kind") != "CustomResourceDefinition":
                raise PluginLoadError(
                    self.name, f"ctrlhost_crds gave {crd!r:.80} instead of a CustomResourceDefinition"
                )
        return crds

    def permissions(self, settings: msgspec.Struct | None) -> list[Permission]:
        """Give the rights that the plugin asks for beyond those of its sources."""
        return list(self._call("ctrlhost_permissions", settings=settings) or ())

    def setup(self, context: PluginContext) -> None:
        """Let the plugin register its controllers and the rest."""
        self._call("ctrlhost_setup", plugin=context)

    def synced(self, context: PluginContext) -> None:
        """Tell the plugin that its caches hold their first list."""
        self._call("ctrlhost_synced", plugin=context)

    def elected(self, context: PluginContext) -> None:
        """Tell the plugin that this replica leads."""
        self._call("ctrlhost_elected", plugin=context)

    def deposed(self, context: PluginContext) -> None:
        """Tell the plugin that this replica leads no more."""
        self._call("ctrlhost_deposed", plugin=context)

    def stopping(self, context: PluginContext) -> None:
        """Tell the plugin that the host is about to drain."""
        self._call("ctrlhost_stopping", plugin=context)

    def commands(self, group: click.Group) -> None:
        """Let the plugin add its commands to `group`."""
        self._call("ctrlhost_commands", group=group)


class PluginManager:
    """The plugins of one host; several managers in a process know nothing of each other."""

    def __init__(self) -> None:
        """Start with the host's hooks and no plugin."""
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)

    def load(self, name: str) -> Plugin:
        """Import the installed plugin `name`.

        PluginNotFound if there is none; PluginLoadError if it can not be imported, is no plugin, misspells a hook, or
        shares its name with another distribution's.
        """
        candidates = _entry_points().get(name, {})
        if not candidates:
            raise _not_found(name)
        if len(candidates) > 1:
            raise PluginLoadError(
                name,
                f"{len(candidates)} installed distributions have a plugin of this name: "
                + ", ".join(sorted(map(str, candidates))),
                hint="uninstall all but one of them",
            )
        ((installed, entry_point),) = candidates.items()
        try:
            implementation = entry_point.load()
        except (Exception, SystemExit) as error:
            raise PluginLoadError(
                name,
                f"it could not be imported: {_one_line(error)}",
                hint=f"mend or reinstall {installed.distribution or installed.target}, or drop it from `--plugins`",
            ) from error
        return self.register(name, implementation, str(installed))

    def register(self, name: str, implementation: object, installed: str = "") -> Plugin:
        """Take a module or object with hook implementations as the plugin `name`."""
        if name in RESERVED_NAMES:
            raise PluginLoadError(name, f"a plugin can not be called `{name}`: the host uses that name itself")
        if self._manager.has_plugin(name):
            raise PluginLoadError(name, "another plugin of this name is loaded already")
        if self._manager.is_registered(implementation):
            raise PluginLoadError(name, "the same module is loaded already under another name")
        try:
            self._manager.register(implementation, name=name)
            self._manager.check_pending()
        except Exception as error:
            if self._manager.is_registered(implementation):
                self._manager.unregister(implementation)
            raise PluginLoadError(name, *_misuse(implementation, self._manager, error)) from error
        if not self._manager.get_hookcallers(implementation):
            self._manager.unregister(implementation)
            message, hint = _no_hooks(implementation)
            raise PluginLoadError(name, message, hint=hint)
        return Plugin(name, implementation, self._manager, installed)


def check_installed(name: str) -> None:
    """Raise PluginNotFound if no plugin of that name is installed; nothing is imported."""
    if name not in _entry_points():
        raise _not_found(name)


def _not_found(name: str) -> PluginNotFound:
    known = sorted(_entry_points())
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        hint = f"did you mean `{near[0]}`?"
    else:
        hint = f"install it with `pip install ctrlhost-{name}`, or drop it from `--plugins`"
    if known:
        hint += f" (installed: {', '.join(known)})"
    return PluginNotFound(name, f"plugin `{name}` is not installed", hint=hint)


def hook_names() -> list[str]:
    """Give the names of all hooks, in the order of hookspecs.py."""
    return [name for name in vars(hookspecs) if name.startswith("ctrlhost_")]


def _misuse(implementation: object, manager: pluggy.PluginManager, error: Exception) -> tuple[str]:
    """Say in one line which of the marked functions is no hook, or has a parameter that its hook has not."""
    known = hook_names()
    for name in dir(implementation):
        if manager.parse_hookimpl_opts(implementation, name) is None:
            continue
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            return (f"there is no hook `{name}`" + (f"; did you mean `{near[0]}`?" if near else ""),)
        allowed = inspect.signature(getattr(hookspecs, name)).parameters
        extra = [p for p in inspect.signature(getattr(implementation, name)).parameters if p not in allowed]
        if extra:
            return (f"`{name}` takes `{extra[0]}`, but the hook's parameters are ({', '.join(allowed)})",)
    return (_one_line(error),)


def _no_hooks(implementation: object) -> tuple[str, str]:
    unmarked = [name for name in hook_names() if callable(getattr(implementation, name, None))]
    if unmarked:
        return f"`{unmarked[0]}` is not marked as a hook", "put `@ctrlhost.hookimpl` above it"
    return "it implements no hook", "a plugin needs at least `ctrlhost_setup`, marked with `@ctrlhost.hookimpl`"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ImportError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


def name_of(implementation: object) -> str:
    """Give the name that a module or object runs under when it is handed over as such: `ctrlhost_foo` is `foo`."""
    name = getattr(implementation, "__name__", None) or type(implementation).__name__
    return str(name).rpartition(".")[2].removeprefix("ctrlhost_").replace("_", "-").lower()
