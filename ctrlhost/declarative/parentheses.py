"""Decorators that need their parentheses, and those that have none: the other way is a mistake in the declaration."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ctrlhost.declarative.declaration import DeclaredFunction

if TYPE_CHECKING:
    from collections.abc import Callable

M = TypeVar("M", bound="Callable[..., Any]")

#: The arguments in the hint.
_ARGUMENTS = {
    "controller": '"apps/v1/Deployment"',
    "finalizer": '"example.com/cleanup", of=reconcile',
    "index": '"apps/v1/Deployment"',
    "health": '"database"',
    "page": '"/path"',
    "report": '"/path"',
    "validate": '"apps/v1/Deployment"',
    "mutate": '"apps/v1/Deployment"',
    "convert": 'Memcached, source="v1alpha1", target="v1"',
}


def needed(method: M) -> M:
    """Report a function that the decorator gets in place of its arguments, since nothing would be declared."""

    @wraps(method)
    def decorator(plugin: Any, *arguments: Any, **options: Any) -> Any:
        if len(arguments) != 1 or options or isinstance(arguments[0], type) or not callable(arguments[0]):
            return method(plugin, *arguments, **options)
        name = method.__name__
        text = f"is below `@plugin.{name}` without parentheses, which declares nothing"
        _report(plugin, name, arguments[0], text, f"write `@plugin.{name}({_ARGUMENTS.get(name, '')})`")
        return arguments[0]

    return cast("M", decorator)


def needless(method: M) -> M:
    """Report a function below the decorator with parentheses."""

    @wraps(method)
    def decorator(plugin: Any, *arguments: Any, **options: Any) -> Any:
        if len(arguments) == 1 and callable(arguments[0]) and not options:
            return method(plugin, arguments[0])
        name = method.__name__

        def declare(function: Any) -> Any:
            text = f"is below `@plugin.{name}(…)`, which takes no arguments"
            _report(plugin, name, function, text, f"write `@plugin.{name}`, without parentheses")
            return function

        return declare

    return cast("M", decorator)


def _report(plugin: Any, decorator: str, function: Any, text: str, hint: str) -> None:
    plugin.declaration.open().mistaken.append((DeclaredFunction(decorator, function, ()), text, hint))
