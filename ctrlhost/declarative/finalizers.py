"""Finalizers of a controller: added before the first run of an object, removed when their functions have ended.

A finalizer is removed by the success of its own function. The success is remembered until the object is gone, so that a
conflict of the removal does not call the function again; after a restart of the host it may be called again.
"""

from __future__ import annotations

import inspect
import re
import threading
import typing
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.client import Client
from ctrlhost.errors import InvalidObject, NotFound, UnknownKind
from ctrlhost.own_writes.client import ended
from ctrlhost.request import Request
from ctrlhost.transport.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctrlhost.cache import Object
    from ctrlhost.declarative.declaration import Declaration, DeclaredController, DeclaredFunction
    from ctrlhost.transport.steps import Steps

#: The API's rule: a DNS name of at most 253 characters, a slash, and a name of at most 63.
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
NAME = re.compile(
    rf"(?=[^/]{{1,253}}/){_LABEL}(?:\.{_LABEL})*/(?=.{{1,63}}\Z)[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?", re.ASCII
)

#: The deleted objects that are remembered, per controller.
_OBJECTS = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Finalizer:
    """A finalizer of a controller: its name, as `domain/name`, its function, and which objects have it."""

    name: str
    #: Called as the reconciler is, for an object that is being deleted.
    declared: DeclaredFunction
    #: Whether an object needs it; None: all do.
    when: Callable[[Any], bool] | None = None
    #: Whether its function takes an `Object`, too, as one that does not fit its model is.
    takes_objects: bool = False

    def wanted(self, obj: Object, decode: Callable[[Object], Any]) -> bool:
        """Return whether an object needs the finalizer; `decode` makes of it what `when` gets.

        InvalidObject if the object does not fit its model and `when` reads it.
        """
        if self.when is None:
            return True
        try:
            decoded = decode(obj)
        except InvalidObject as error:
            # So that a finalizer of an older release, whose condition reads nothing, goes from any object.
            decoded = _Unfit(error)
        return bool(self.when(decoded))


class _Unfit:
    """Stands for an object that does not fit its model; InvalidObject when an attribute is read."""

    def __init__(self, error: InvalidObject) -> None:
        self.__error = error

    def __getattr__(self, name: str) -> Any:
        raise self.__error


def collect_finalizers(controller: DeclaredController, declared: Iterable[DeclaredFunction]) -> list[Finalizer]:
    """Return the finalizers that are declared for a controller, in their order."""
    return [
        Finalizer(function.options["name"], function, function.options["when"], _takes_objects(function))
        for function in declared
        if function.options["of"] is controller
    ]


def _takes_objects(declared: DeclaredFunction) -> bool:
    """Return whether the annotation of the function's object names `ctrlhost.Object`, alone or in a union."""
    from ctrlhost.cache import Object

    function = inspect.unwrap(declared.function)
    try:
        annotation = list(inspect.signature(function).parameters.values())[1].annotation
        if isinstance(annotation, str):
            # This one alone: the others may have been imported for type checkers only.
            annotation = eval(annotation, getattr(function, "__globals__", {}))  # noqa: S307 - the author's own text
    except Exception:  # noqa: BLE001 - an annotation may raise anything, and none is needed
        return False
    return annotation is Object or Object in typing.get_args(annotation)


def find_problem(declared: DeclaredFunction, declaration: Declaration) -> tuple[str, str] | None:
    """Return what is wrong with a finalizer's name, controller, function or condition, and a hint; None for nothing."""
    name, controller, when = declared.options["name"], declared.options["of"], declared.options["when"]
    if not isinstance(name, str) or not NAME.fullmatch(name):
        text = f'{name!r} is not the name of a finalizer: it needs a domain, such as "example.com/cleanup"'
        return text, 'write it as `@plugin.finalizer("example.com/cleanup", of=reconcile)`'
    if not any(controller is known for known in declaration.controllers):
        label = getattr(controller, "__name__", repr(controller))
        hint = f"decorate `{label}` with `@plugin.controller(…)`, above its finalizers"
        if not callable(controller):
            hint = f'write it as `@plugin.finalizer("{name}", of=reconcile)`, with the function of the controller'
        return f"of={label} is not a controller of this plugin", hint
    if declared.is_async != controller.declared.is_async:
        forms = ("async def", "def") if declared.is_async else ("def", "async def")
        text = f"is {forms[0]}, but its controller {controller.name} is {forms[1]}; both have to be the same"
        return text, f"write it as `{forms[1]} {declared.name}(ctx, obj)`"
    if when is not None and not callable(when):
        return f"when={when!r} is not a function of the object", "write `when=lambda obj: …`"
    if (
        sum(
            finalizer.options["name"] == name and finalizer.options["of"] is controller
            for finalizer in declaration.finalizers
        )
        > 1
    ):
        return f"the controller {controller.name} has two finalizers {name}", "give each another name"
    return None


class ObjectFinalizers:
    """The finalizers of one controller on its objects. A key is never reconciled twice at once."""

    def __init__(self, finalizers: Sequence[Finalizer], objects: int = _OBJECTS) -> None:
        """Keep the finalizers in the order of their declaration; remember so many objects, the latest ones."""
        self._finalizers = tuple(finalizers)
        #: The names of the finalizers.
        self.in_order = tuple(finalizer.name for finalizer in self._finalizers)
        self.names = frozenset(self.in_order)
        self._most = objects
        self._lock = threading.Lock()
        #: By key: the uid of an object that is being deleted, and the finalizers whose functions have succeeded. The
        #: author's predicates may hide the end of an object.
        self._finished: OrderedDict[Request, tuple[str, set[str]]] = OrderedDict()

    @property
    def are_several(self) -> bool:
        """Whether the removal of one may make another one due."""
        return len(self._finalizers) > 1

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._finalizers)

    def is_due(self, old: Object | None, new: Object | None) -> bool:
        """Return whether a change shows first that an object is being deleted, or is no longer selected: a predicate.

        An object with a finalizer of the controller leaves the cache only when it is no longer selected. If somebody
        else takes one finalizer of several off, the next one is due.
        """
        if new is None:
            return old is not None and not self.names.isdisjoint(old.finalizers)
        if new.deletion_timestamp is None:
            return False
        if old is None or old.deletion_timestamp is None:
            return True
        left = self.names.intersection(new.finalizers)
        removed = self.names.intersection(old.finalizers) - left
        return bool(left and removed - self._finished_of(Request(new.name, new.namespace), new.uid))

    def gone(self, key: Request) -> None:
        """Forget an object that no longer exists."""
        self._finished.pop(key, None)

    def keep(self, client: Client, obj: Object, decode: Callable[[Object], Any]) -> Steps[Object | None]:
        """Add the finalizers that an object needs, and take off those that it no longer needs, in one patch.

        Returns the object as it is now, None if it is gone. Raises Conflict, and InvalidObject if the object that needs
        one does not fit its model.
        """
        present = list(obj.finalizers)
        unwanted = [own.name for own in self._finalizers if not own.wanted(obj, decode)]
        kept = [name for name in present if name not in unwanted]
        kept += [own.name for own in self._finalizers if own.name not in (*present, *unwanted)]
        if kept == present:
            return obj
        if not set(kept) <= set(present):
            # The function of a finalizer could not be called for an object that does not fit its model.
            decode(obj)
        return (yield from write_finalizers(client, obj, kept))

    def next(
        self, client: Client, key: Request, obj: Object, decode: Callable[[Object], Any]
    ) -> Steps[tuple[Object | None, Finalizer | None]]:
        """Return the object, which is being deleted, and the first finalizer whose function is to be called.

        Before that, take off those before it that have succeeded or are no longer needed. The object is None if it is
        gone, the finalizer if it has none of this controller any more. Raises Conflict.
        """
        finished = self._finished_of(key, obj.uid)
        left = list(obj.finalizers)
        due = None
        for own in self._finalizers:
            if own.name not in left:
                continue
            if own.name not in finished and own.wanted(obj, decode):
                due = own
                break
            left.remove(own.name)
            self.succeeded(key, obj.uid, own)
        if len(left) == len(obj.finalizers):
            return obj, due
        now = yield from write_finalizers(client, obj, left)
        return now, due if now is not None else None

    def succeeded(self, key: Request, uid: str, finalizer: Finalizer) -> None:
        """Remember that the function of a finalizer has ended; `next` removes the finalizer."""
        names = self._finished_of(key, uid) | {finalizer.name}
        with self._lock:
            self._finished[key] = (uid, names)
            if len(self._finished) > self._most:
                self._finished.popitem(last=False)

    def _finished_of(self, key: Request, uid: str) -> set[str]:
        known, names = self._finished.get(key, (uid, set()))
        return names if known == uid else set()


def write_finalizers(client: Client, obj: Object, finalizers: Sequence[str]) -> Steps[Object | None]:
    """Write the finalizers of an object; return it as it is now, None if it is gone. Conflict if it has changed."""
    from ctrlhost.cache import Object

    patch = {"metadata": {"finalizers": list(finalizers), "resourceVersion": obj.resource_version}}
    try:
        written = yield from steps_of(Client.patch)(
            client, obj.api_version, obj.kind, obj.name, obj.namespace or None, patch
        )
    except UnknownKind:
        raise
    except NotFound:
        return None
    return None if ended(written) else Object(written)
