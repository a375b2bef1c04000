"""Find, import and call plugins: the only module that calls pluggy.

Listing reads the metadata of installed distributions and imports nothing. Loading imports only the named plugin, and
`Plugin` has a typed method per hook that calls only this plugin's implementation.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
import types
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import pluggy

from ctrlhost import hookspecs
from ctrlhost._core import __version__
from ctrlhost.controller.places import add_plugin, name_of_file, place_of
from ctrlhost.errors import PluginLoadError, PluginNotFound
from ctrlhost.suggestions import did_you_mean
from ctrlhost.supervisor.plugin_file import PluginSource
from ctrlhost.supervisor.shipped_objects import problem_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import click
    import msgspec

    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext

GROUP = "ctrlhost"
#: The group of what makes plugins of the operators of other frameworks.
FRAMEWORKS = "ctrlhost.frameworks"

#: Reserved names: paths of the host's server, sections and tables of the settings, and commands.
RESERVED_NAMES = frozenset(
    """
    admin api assets chart check client completion controllers crds deadlines debug dev enqueue explain-key finalizers
    healthz host informers livez log-level manifests metrics models new otel pause plugins profile queue readyz resign
    resume run sandbox settings shards status supervision top version webhooks
    """.split()  # noqa: SIM905 - a list of so many strings is not easier to read
)


#: What helps where a module has no plugin, and where a file has several.
_WRITE_A_PLUGIN = "write `plugin = ctrlhost.Plugin()` and its controllers below it, or hooks with `@ctrlhost.hookimpl`"
_ONE_EACH = "a file is one plugin: declare all on one `ctrlhost.Plugin`, or give each a file of its own"


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
    plugins: dict[str, set[InstalledPlugin]] = {}
    for entry_point in entry_points(group=GROUP):
        plugins.setdefault(entry_point.name, set()).add(_installed(entry_point))
    return {name: tuple(sorted(plugins[name], key=str)) for name in sorted(plugins)}


def misplaced_plugins() -> list[str]:
    """Return one line for each entry point in a group such as `ctrlhost.plugins`, where no host finds it."""
    groups = [group for group in entry_points().groups if _is_like_group(group)]
    return sorted({_misplaced(entry_point) for group in groups for entry_point in entry_points(group=group)})


def _is_like_group(group: str) -> bool:
    return group not in (GROUP, FRAMEWORKS) and re.split(r"[^a-z]", group.lower(), maxsplit=1)[0] in (
        GROUP,
        f"{GROUP}s",
    )


def _misplaced(entry_point: EntryPoint) -> str:
    where = _installed(entry_point).distribution or entry_point.value
    return f"{where} has an entry point {entry_point.name} in the group {entry_point.group}; the group is {GROUP}"


def _installed(entry_point: EntryPoint) -> InstalledPlugin:
    name, version = (entry_point.dist.name, entry_point.dist.version) if entry_point.dist else ("", "")
    return InstalledPlugin(entry_point.name, entry_point.value, name, version, entry_point)


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
        self._crds: list[dict[str, Any]] | None = None
        self._objects: list[dict[str, Any]] | None = None

    def _call(self, hook: str, **arguments: Any) -> Any:
        results = getattr(self._hooks.hook, hook)(**arguments)
        return results[0] if results else None

    def loaded(self) -> None:
        """Pass its name to the plugin."""
        self._call("ctrlhost_loaded", name=self.name)

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
        """Return the CustomResourceDefinitions that the plugin owns; the hook is called until it has returned."""
        if self._crds is not None:
            return self._crds
        crds = list(self._call("ctrlhost_crds") or ())
        for crd in crds:
            if not isinstance(crd, dict) or crd.get("kind") != "CustomResourceDefinition":
                message = f"ctrlhost_crds returned {crd!r:.80}; it must return CustomResourceDefinitions"
                raise PluginLoadError(self.name, message)
        self._crds = crds
        return crds

    def objects(self) -> list[dict[str, Any]]:
        """Return the objects that the plugin ships besides its CRDs; the hook is called until it has returned."""
        if self._objects is None:
            objects = list(self._call("ctrlhost_objects") or ())
            for problem in filter(None, map(problem_of, objects)):
                raise PluginLoadError(self.name, f"ctrlhost_objects: {problem}")
            self._objects = objects
        return self._objects

    def permissions(self, settings: msgspec.Struct | None) -> list[Permission]:
        """Return the permissions that the plugin needs beyond those of its sources."""
        return list(self._call("ctrlhost_permissions", settings=settings) or ())

    def notes(self) -> list[str]:
        """Return what the plugin says to who deploys it."""
        return list(self._call("ctrlhost_notes") or ())

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

    def shards_changed(self, context: PluginContext) -> None:
        """Notify the plugin that ranges of keys have opened on this replica, or were lost."""
        self._call("ctrlhost_shards_changed", plugin=context)

    def stopping(self, context: PluginContext) -> None:
        """Notify the plugin that the host shuts down."""
        self._call("ctrlhost_stopping", plugin=context)

    def finalizers(self, controller: str) -> list[str]:
        """Return the finalizers of a controller."""
        return list((self._call("ctrlhost_finalizers") or {}).get(controller, ()))

    def commands(self, group: click.Group) -> None:
        """Add the plugin's commands to `group`."""
        self._call("ctrlhost_commands", group=group)


def owned_crds(plugins: Iterable[Plugin]) -> list[dict[str, Any]]:
    """Return the CRDs that the plugins own, each once."""
    crds: dict[str, dict[str, Any]] = {}
    for plugin in plugins:
        for crd in plugin.crds():
            crds.setdefault(crd["metadata"]["name"], crd)
    return list(crds.values())


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
        _check_version(installed)
        add_plugin(installed.entry_point.module)
        try:
            implementation = installed.entry_point.load()
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise PluginImportError(
                name,
                f"it could not be imported: {_one_line(error)}{_place(error)}",
                hint=f"fix or reinstall {installed.distribution or installed.target}, or drop it from `--plugins`",
            ) from error
        return self.register(name, implementation, str(installed), installed.version)

    def register(self, name: str, implementation: object, installed: str = "", version: str = "") -> Plugin:
        """Register a module or object with hook implementations, or the source of one, as the plugin `name`.

        A module without hooks stands for the `ctrlhost.Plugin`, or the other object with hooks, at its top level. The
        same one may be registered again
        under its name: an earlier call may hang in its code.
        """
        if isinstance(implementation, PluginSource):
            module = implementation.load()
            try:
                return self.register(name, _find_plugin(name, module, _ONE_EACH), str(implementation))
            except PluginLoadError as error:
                from ctrlhost.declarative.checks import DeclarationError

                if isinstance(error, DeclarationError):
                    # Its mistakes have their places.
                    raise
                raise PluginLoadError(name, f"{implementation}: {error.message}", hint=error.hint) from error
        if name in RESERVED_NAMES:
            raise PluginLoadError(name, f"invalid plugin name `{name}`: the host reserves it")
        implementation = _find_plugin(name, implementation)
        with self._lock:
            if self._loaded.get(name, implementation) is not implementation:
                raise PluginLoadError(name, "another plugin of this name is already loaded")
            if any(other is implementation for known, other in self._loaded.items() if known != name):
                raise PluginLoadError(name, "the same module is already loaded under another name")
            self._loaded[name] = implementation
        try:
            plugin = Plugin(name, implementation, _register_hooks(name, implementation), installed, version)
            plugin.loaded()
            return plugin
        except BaseException:
            with self._lock:
                self._loaded.pop(name, None)
            raise


def _check_version(installed: InstalledPlugin) -> None:
    """Raise PluginLoadError if the plugin's distribution requires another version of ctrlhost.

    pip only warns when it leaves such a plugin installed.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    distribution = installed.entry_point.dist
    for text in (distribution.requires or ()) if distribution is not None else ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.name != "ctrlhost" or (requirement.marker is not None and not requirement.marker.evaluate()):
            continue
        if not requirement.specifier.contains(__version__, prereleases=True):
            raise PluginLoadError(
                installed.name,
                f"{installed} needs ctrlhost{requirement.specifier}, and this is ctrlhost {__version__}",
                hint=f"`pip install --upgrade ctrlhost {installed.distribution}` installs versions that fit",
            )


def _register_hooks(name: str, implementation: object) -> pluggy.PluginManager:
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


def _find_plugin(name: str, implementation: object, hint: str | None = None) -> object:
    """Return the only plugin at the top level of a module without hooks; PluginLoadError with `hint` for several."""
    if not isinstance(implementation, types.ModuleType) or any(hasattr(implementation, hook) for hook in hook_names()):
        return implementation
    plugins = {
        id(value): (variable, value) for variable, value in vars(implementation).items() if _is_plugin_object(value)
    }
    if len(plugins) > 1:
        variables = " and ".join(f"`{variable}`" for variable, _ in plugins.values())
        message = f"the module `{implementation.__name__}` has {len(plugins)} plugins: {variables}"
        variable = next(iter(plugins.values()))[0]
        hint = hint or f'name the one to load in the entry point, as `{name} = "{implementation.__name__}:{variable}"`'
        raise PluginLoadError(name, message, hint=hint)
    return next((value for _, value in plugins.values()), implementation)


def _is_plugin_object(value: object) -> bool:
    """Return whether a value is a `ctrlhost.Plugin`, or another object with hooks; modules and classes are none."""
    if isinstance(value, type | types.ModuleType):
        return False
    # Statically: an attribute of an object may run the plugin's code.
    names = ("ctrlhost_loaded", *hook_names())
    return any(inspect.getattr_static(value, name, None) is not None for name in names)


def check_installed(name: str) -> None:
    """Raise PluginNotFound if no plugin of that name is installed; this imports nothing."""
    if name not in installed_plugins():
        raise _not_found(name)


def _not_found(name: str) -> PluginNotFound:
    known = list(installed_plugins())
    for entry_point in entry_points(name=name):
        if _is_like_group(entry_point.group):
            hint = f"write `[project.entry-points.{GROUP}]` in its pyproject.toml, and install it again"
            return PluginNotFound(name, _misplaced(entry_point), hint=hint)
    if name.endswith(".py") or "/" in name:
        hint = "files are arguments of `run`, `dev`, `check`, `crds` and `manifests`, without `--plugins`"
        return PluginNotFound(name, f"`{name}` is a file, not the name of an installed plugin", hint=hint)
    # No name of a distribution: anybody may register one that a mistyped name gives.
    hint = did_you_mean(name, known) or f"correct the name, or install the plugin for {sys.executable}"
    hint += f" (installed: {', '.join(known) or 'none'})"
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
            near = did_you_mean(name, known)
            return f"there is no hook `{name}`" + (f"; {near}" if near else "")
        allowed = inspect.signature(getattr(hookspecs, name)).parameters
        extra = [p for p in inspect.signature(getattr(implementation, name)).parameters if p not in allowed]
        if extra:
            return f"`{name}` takes `{extra[0]}`, but the hook's parameters are ({', '.join(allowed)})"
    return _one_line(error)


def _no_hooks(implementation: object) -> tuple[str, str]:
    unmarked = [name for name in hook_names() if callable(getattr(implementation, name, None))]
    if unmarked:
        return f"`{unmarked[0]}` is not marked as a hook", "put `@ctrlhost.hookimpl` above it"
    if isinstance(implementation, types.ModuleType):
        return "it has no `ctrlhost.Plugin` at its top level, and no hooks", _WRITE_A_PLUGIN
    if isinstance(implementation, type | types.FunctionType):
        what = "class" if isinstance(implementation, type) else "function"
        hint = "pass a `ctrlhost.Plugin`, an object or a module with hooks, or the name of an installed plugin"
        return f"the {what} `{implementation.__qualname__}` is no plugin: it implements no hook", hint
    return "it implements no hook", "a plugin needs at least `ctrlhost_setup`, marked with `@ctrlhost.hookimpl`"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ImportError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _place(error: BaseException) -> str:
    """Return the place in the plugin's code, in brackets; empty if it is unknown."""
    place = place_of(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{name_of_file(error.filename)}:{error.lineno}"
    return f" ({place})" if place else ""


def name_of(implementation: object) -> str:
    """Return the plugin name of a module or object that is passed to the host: `ctrlhost_foo` is `foo`."""
    if isinstance(implementation, type | types.FunctionType):
        return implementation.__name__.replace("_", "-").lower()
    # Not `getattr`: a property would run the plugin's code on the caller's thread.
    own_name = inspect.getattr_static(implementation, "__name__", None)
    name = own_name if isinstance(own_name, str) and own_name else type(implementation).__name__
    return str(name).rpartition(".")[2].removeprefix("ctrlhost_").replace("_", "-").lower()
