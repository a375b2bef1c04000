"""What a `ctrlhost.Plugin` declares: functions with their options and their places in the source."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.errors import PluginLoadError
from ctrlhost.permissions import Permission

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import click

    from ctrlhost.controller.index import Index
    from ctrlhost.models.kinds import Kind


#: The options that may be functions of the settings.
OF_SETTINGS = frozenset(
    {
        *("kind", "owns", "watches", "every", "workers", "timeout", "needs_leader", "retry", "rate_limiter"),
        *("suppress_echo", "shard_by", "enabled", "first_after"),
    }
)


def is_of_settings(name: str, option: Any) -> bool:
    """Return whether the value of an option is a function of the settings that returns it."""
    return name in OF_SETTINGS and callable(option) and not isinstance(option, type)


def _without_arguments(function: Any) -> Any:
    """Return the function of a `functools.partial`."""
    while isinstance(function, partial):
        function = function.func
    return function


@dataclass(frozen=True, slots=True)
class DeclaredFunction:
    """A decorated function. Nothing of it was checked: see `checks`."""

    #: The decorator, such as `controller`.
    decorator: str
    function: Callable[..., Any]
    #: The arguments that it is called with, by name; `async def` tasks get only the first.
    called_with: tuple[str, ...]
    #: The arguments of the decorator, as given.
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's name; of another callable that of its class."""
        plain = _without_arguments(self.function)
        return str(getattr(plain, "__name__", type(plain).__name__))

    def options_for(self, settings: Any) -> dict[str, Any]:
        """Return the options, with those that are functions of the settings called."""
        return {
            name: option(settings) if is_of_settings(name, option) else option for name, option in self.options.items()
        }

    @property
    def is_async(self) -> bool:
        """Whether it is an `async def`, also as `__call__` of an object."""
        call = getattr(self.function, "__call__", None)  # noqa: B004 - inspects how it is defined
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)

    @property
    def place(self) -> str:
        """The file and line of the function, as `FILE:LINE`; empty if it has none."""
        function = inspect.unwrap(_without_arguments(self.function))
        code = getattr(function, "__code__", None) or getattr(getattr(function, "__call__", None), "__code__", None)  # noqa: B004
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


class DeclaredController(Protocol):
    """What a declaration knows of a `Controller`."""

    @property
    def declared(self) -> DeclaredFunction:
        """The function, with the arguments of the decorator."""

    @property
    def kind(self) -> Kind:
        """The reconciled kind; TypeError or ValueError if the declaration names none, or leaves it to the settings."""

    @property
    def name(self) -> str:
        """The controller's name."""


@dataclass(slots=True, eq=False)
class Declaration:
    """All that a plugin declares, each kind of function in the order of declaration. Constant once `sealed`."""

    #: The struct of the plugin's settings.
    settings: type[Any] | None = None
    #: The module that made the plugin, and the patterns of the CRD files in its package.
    module: str = ""
    crds: tuple[str, ...] = ()
    #: The patterns of the files with further objects.
    objects: tuple[str, ...] = ()
    controllers: list[DeclaredController] = field(default_factory=list)
    tasks: list[DeclaredFunction] = field(default_factory=list)
    finalizers: list[DeclaredFunction] = field(default_factory=list)
    indexes: list[Index[Any]] = field(default_factory=list)
    setup: list[DeclaredFunction] = field(default_factory=list)
    synced: list[DeclaredFunction] = field(default_factory=list)
    elected: list[DeclaredFunction] = field(default_factory=list)
    deposed: list[DeclaredFunction] = field(default_factory=list)
    shards_changed: list[DeclaredFunction] = field(default_factory=list)
    stopping: list[DeclaredFunction] = field(default_factory=list)
    health: list[DeclaredFunction] = field(default_factory=list)
    #: Admission webhooks, and conversions between versions.
    webhooks: list[DeclaredFunction] = field(default_factory=list)
    conversions: list[DeclaredFunction] = field(default_factory=list)
    pages: list[DeclaredFunction] = field(default_factory=list)
    reports: list[DeclaredFunction] = field(default_factory=list)
    #: Permissions, and functions of the settings that return some.
    permissions: list[Permission | DeclaredFunction] = field(default_factory=list)
    commands: list[click.Command] = field(default_factory=list)
    #: Functions below a decorator that could not take them: each with what is wrong, and what to write instead.
    mistaken: list[tuple[DeclaredFunction, str, str]] = field(default_factory=list)
    #: The name under which a host has loaded the plugin; None before.
    loaded_as: str | None = None

    def open(self) -> Declaration:
        """Return this declaration to add to it; RuntimeError once a host has loaded it."""
        if self.loaded_as is not None:
            raise RuntimeError(
                f"plugin `{self.loaded_as}` is loaded: declarations end when a host loads it, "
                "so put decorators at the top level of the plugin's module"
            )
        return self

    def permissions_for(self, settings: Any) -> list[Permission]:
        """Return the permissions; PluginLoadError for a function of the settings that returns anything else."""
        permissions: list[Permission] = []
        for permission in self.permissions:
            returned: Any = [permission] if isinstance(permission, Permission) else permission.function(settings)
            values = list(returned) if isinstance(returned, Iterable) else [returned]
            if isinstance(permission, DeclaredFunction) and not all(isinstance(value, Permission) for value in values):
                where = f"{permission.place}: {permission.name}"
                message = f"{where}: returned {returned!r:.80}; return a list of ctrlhost.Permission"
                hint = 'write `return [ctrlhost.Permission("", ["pods"], ["get"])]`, or an empty list'
                raise PluginLoadError(self.loaded_as or self.module, message, hint=hint)
            permissions += values
        return permissions
