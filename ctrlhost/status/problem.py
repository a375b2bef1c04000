"""A request for a status that cannot be answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.suggestions import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable


class StatusProblem(Exception):
    """The answer to a request that names something unknown or invalid: a status of HTTP, one line, and a hint."""

    def __init__(self, status: int, error: str, hint: str | None = None) -> None:
        """Set the fields of the answer."""
        super().__init__(error)
        self.status = status
        self.error = error
        self.hint = hint


def unknown(what: str, name: str, known: Iterable[str]) -> StatusProblem:
    """Return the problem of a name that is not among `known`, with the nearest one as the hint."""
    return StatusProblem(404, f"no {what} `{name}`", suggest(name, known))
