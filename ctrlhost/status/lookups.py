"""What the API server and the plugins' predicates said last, for pages that are rendered again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_T = TypeVar("_T")


class Asked:
    """What the API server and the plugins' predicates said last, for those who look again and again."""

    def __init__(self, seconds: float = 0.0) -> None:
        """Ask again after so many seconds."""
        self._seconds = seconds
        self._known: dict[Hashable, tuple[float, Any]] = {}

    def ask(self, what: Hashable, question: Callable[[], _T]) -> _T:
        """Return what `question` returns, or has returned."""
        now = time.monotonic()
        known = self._known.get(what)
        if known is not None and now - known[0] < self._seconds:
            return cast("_T", known[1])
        answer = question()
        if self._seconds:
            kept = {question: told for question, told in self._known.copy().items() if now - told[0] < self._seconds}
            self._known = kept | {what: (now, answer)}
        return answer
