"""The handlers of an operator, and which kinds and objects they are for."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ctrlhost_kopf.bodies import Resource
    from ctrlhost_kopf.dicts import FieldPath

#: `pods.v1` and `deployments.v1.apps`, in contrast to `deployments.apps`.
_VERSIONED = re.compile(r"[^.]*\.v\d+(?:(?:alpha|beta)\d+)?(?:\..*)?")
_NAMES = ("kind", "plural", "singular", "shortcut", "category")
#: The groups of handlers, by the list of the registry that has them.
GROUPS = {
    "indexing": ("index",),
    "watching": ("event",),
    "spawning": ("timer", "daemon"),
    "changing": ("change",),
    "webhooks": ("validate", "mutate"),
}
_TITLES = {"index": "Indexer", "timer": "Timer", "daemon": "Daemon", "validate": "Webhook", "mutate": "Webhook"}


class _Everything:
    def __repr__(self) -> str:
        return "EVERYTHING"


#: Selects all kinds but events.
EVERYTHING = _Everything()


@dataclass(frozen=True)
class Selector:
    """The kinds of a handler: by group, version and one name, or by a function."""

    group: str | None = None
    version: str | None = None
    #: What the name is: `kind`, `plural`, `singular`, `shortcut` or `category`; None for any of these but the last.
    which: str | None = None
    name: Any = None

    @classmethod
    def of(cls, *args: Any, group: str | None = None, version: str | None = None, **names: str | None) -> Selector:
        """Return the selector of a decorator's arguments; TypeError unless they have exactly one name."""
        given: dict[str, Any] = {which: name for which, name in names.items() if name is not None}
        *groups, given[""] = [arg for arg in args if arg is not None] or [None]
        name = given[""]
        if name is None:
            del given[""]
        elif not groups and isinstance(name, str) and "." in name:
            versioned = _VERSIONED.fullmatch(name) is not None
            given[""], *rest = name.split(".", 2 if versioned else 1)
            version = rest.pop(0) if versioned else version
            group = rest[0] if rest else group
        elif len(groups) == 1 and "/" in groups[0]:
            group, version = groups[0].rsplit("/", 1)
        elif groups == ["v1"]:
            group, version = "", "v1"
        elif groups:
            group, version = groups[0], groups[1] if len(groups) > 1 else version
        if len(given) != 1 or not all(given.values()) or (callable(name) and groups):
            raise TypeError(f"a handler needs one name of its kind, got {[*args, *given.values()]}")
        ((which, name),) = given.items()
        return cls(group, version, which or None, name)

    def __str__(self) -> str:
        name = f"{self.which} {self.name}" if self.which else str(self.name)
        return "/".join(part for part in (self.group, self.version, name) if part)

    @property
    def is_open(self) -> bool:
        """Whether it can select several kinds."""
        return self.which == "category" or self.name is EVERYTHING or callable(self.name)

    def check(self, kind: Resource) -> bool:
        """Return whether a kind is selected."""
        if self.group not in (None, kind.group):
            return False
        if self.version != kind.version and not (self.version is None and (kind.preferred or callable(self.name))):
            return False
        if self.name is EVERYTHING or callable(self.name):
            is_event = kind.plural == "events" and kind.group in ("", "events.k8s.io")
            return not is_event and (self.name is EVERYTHING or bool(self.name(kind)))
        if self.which == "category":
            return self.name in kind.categories
        if self.which == "shortcut":
            return self.name in kind.shortcuts
        if self.which is not None:
            return bool(getattr(kind, self.which) == self.name)
        return self.name in (kind.kind, kind.plural, kind.singular) or self.name in kind.shortcuts

    def select(self, kinds: Iterable[Resource]) -> list[Resource]:
        """Return the selected kinds; a name that the core group has means that one."""
        selected = [kind for kind in kinds if self.check(kind)]
        if self.is_open:
            return selected
        return [kind for kind in selected if kind.group == ""] or selected


@dataclass(frozen=True, eq=False)
class Handler:
    """A function of an operator, and when it is called."""

    #: `change`, `event`, `index`, `timer`, `daemon`, `validate`, `mutate`, `startup`, `cleanup`, `login` or `probe`.
    group: str
    fn: Callable[..., Any]
    id: str
    selector: Selector | None = None
    param: Any = None
    errors: Any = None
    timeout: float | None = None
    retries: int | None = None
    backoff: float | None = None
    labels: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None
    when: Callable[..., bool] | None = None
    field: FieldPath | None = None
    value: Any = None
    old: Any = None
    new: Any = None
    #: The cause of a change; None for any.
    reason: Any = None
    #: Whether it is called for objects that the operator finds when it starts, and then also for those being deleted.
    initial: bool = False
    deleted: bool = False
    requires_finalizer: bool = False
    needs_change: bool = False
    #: What only its group has.
    options: Mapping[str, Any] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        default = "Handler" if self.selector is not None or self.group == "change" else "Activity"
        return f"{_TITLES.get(self.group, default)} {self.id!r}"


class OperatorRegistry:
    """The handlers of an operator, in the order in which they were registered."""

    def __init__(self) -> None:
        self.activities: dict[str, list[Handler]] = {name: [] for name in ("startup", "cleanup", "login", "probe")}
        self.indexing: list[Handler] = []
        self.watching: list[Handler] = []
        self.spawning: list[Handler] = []
        self.changing: list[Handler] = []
        self.webhooks: list[Handler] = []

    def append(self, handler: Handler) -> None:
        """Register a handler."""
        name = next((name for name, groups in GROUPS.items() if handler.group in groups), "")
        (getattr(self, name) if name else self.activities[handler.group]).append(handler)

    @property
    def is_empty(self) -> bool:
        """Whether there are no handlers at all."""
        return not any((*self.activities.values(), self.resource_handlers, self.webhooks))

    @property
    def resource_handlers(self) -> list[Handler]:
        """All handlers of objects."""
        return [*self.indexing, *self.watching, *self.spawning, *self.changing]


#: The registry of the file that is being imported; else all files share one.
current: ContextVar[OperatorRegistry | None] = ContextVar("ctrlhost_kopf_registry", default=None)
_shared = OperatorRegistry()


def get_default_registry() -> OperatorRegistry:
    """Return the registry of decorators that name none."""
    return current.get() or _shared


def set_default_registry(registry: OperatorRegistry) -> None:
    """Use a registry for decorators that name none."""
    global _shared
    _shared = registry


def id_of(fn: Any) -> str:
    """Return the id of a function that has none of its own; ValueError for what is no function."""
    if isinstance(fn, functools.partial):
        return id_of(fn.func)
    if hasattr(fn, "__wrapped__"):
        return id_of(fn.__wrapped__)
    if not inspect.isfunction(fn) and not inspect.ismethod(fn):
        raise ValueError(f"{fn!r} needs an id: it is not a function")
    if fn.__name__ == "<lambda>":
        return f"lambda:{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
    return fn.__qualname__


def unique(handlers: Iterable[Handler]) -> list[Handler]:
    """Return the handlers, but a function that was registered twice with one id only once."""
    return list({(handler.fn, handler.id): handler for handler in reversed(list(handlers))}.values())[::-1]
