"""What handlers, predicates and maps that are Python functions cost, for the metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ctrlhost import _core

if TYPE_CHECKING:
    from collections.abc import Callable

Use = Literal["handler", "predicate", "map"]


class FunctionCost(Protocol):
    """One function's calls so far, the seconds they took, and how many of them failed."""

    @property
    def use(self) -> Use:
        """What the function is for."""

    @property
    def name(self) -> str:
        """Its module and name."""

    @property
    def calls(self) -> int:
        """How often it was called."""

    @property
    def seconds(self) -> float:
        """How long that took, with the wait for the interpreter where the core calls it."""

    @property
    def errors(self) -> int:
        """How often it raised."""


@dataclass(slots=True)
class HandlerCost:
    """Of a handler's callbacks; counted by the one thread that calls them, or nearly right where there are several."""

    use: Use
    name: str
    calls: int = 0
    seconds: float = 0.0
    errors: int = 0

    def call(self, function: Callable[..., None], *args: Any) -> None:
        """Call and count; what it raises is raised."""
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
class MeasuredCost:
    """Of a function that the core calls."""

    use: Use
    name: str
    counted: _core.CallbackMetrics

    @property
    def calls(self) -> int:
        """How often it was called."""
        return self.counted.calls

    @property
    def seconds(self) -> float:
        """How long that took, with the wait for the interpreter."""
        return self.counted.seconds

    @property
    def errors(self) -> int:
        """How often it raised."""
        return self.counted.errors


def measured(use: Use, value: Any, costs: list[FunctionCost]) -> Any:
    """Give a function as one whose calls are counted, and note it in `costs`; what is no function stays as it is."""
    ready = (_core.Predicate, _core.Owner, _core.ByLabel, _core.ByIndex, _core.CallbackMetrics)
    if not callable(value) or isinstance(value, ready):
        return value
    counted = _core.CallbackMetrics(value)
    costs.append(MeasuredCost(use, handler_name(value), counted))
    return counted


def handler_name(*functions: Any) -> str:
    """Give a readable name for a handler from the functions it is made of; never fails."""
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
