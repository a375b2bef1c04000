"""Metrics of the Python functions that serve as handlers, predicates, maps and index functions."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost import _core

Use = Literal["handler", "predicate", "map", "index"]


@dataclass(slots=True)
class HandlerMetrics:
    """Calls of a handler's callbacks, their seconds and errors; approximate with several threads."""

    calls: int = 0
    seconds: float = 0.0
    errors: int = 0

    def call(self, function: Callable[..., None], *args: Any) -> None:
        """Call `function` and count it; exceptions propagate."""
        began = time.perf_counter()
        self.calls += 1
        try:
            function(*args)
        except BaseException:
            self.errors += 1
            raise
        finally:
            self.seconds += time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class FunctionMetrics:
    """Metrics of one function: its use, its module and name, and the counts.

    The core counts the functions that it calls; their seconds include the wait for the interpreter.
    """

    use: Use
    name: str
    counts: HandlerMetrics | _core.CallbackMetrics


def handler_name(*functions: Any) -> str:
    """Return a readable name for a handler with these functions; never fails."""
    for function in functions:
        if function is None:
            continue
        named = getattr(function, "__func__", function)
        inner = getattr(named, "func", named)
        module, name = getattr(inner, "__module__", None), getattr(inner, "__qualname__", None)
        if name is None:
            module, name = type(inner).__module__, type(inner).__qualname__
        return f"{module}.{name}" if module else str(name)
    return "an empty handler"
