from __future__ import annotations

from dataclasses import dataclass

import pytest

from ctrlhost.controller.error_groups import decisive, leaves
from ctrlhost.errors import NotLeading, NotOwned, RetryAfter, TerminalError

OVER, FAILED, LATER, FOREIGN, LAST = (
    NotLeading("over", reason="term"),
    ValueError("failed"),
    RetryAfter(5),
    NotOwned("foreign"),
    TerminalError("last"),
)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([LAST, FOREIGN, LATER, FAILED, OVER], OVER),
        ([LAST, FOREIGN, LATER, FAILED], FAILED),
        ([LAST, FOREIGN, LATER], LATER),
        ([LAST, FOREIGN], FOREIGN),
        ([LAST], LAST),
    ],
)
def test_the_decisive_error_of_a_group(errors: list[Exception], expected: Exception) -> None:
    group = ExceptionGroup("tasks", [ExceptionGroup("nested", errors[:1]), *errors[1:]] if len(errors) > 1 else errors)
    assert list(leaves(group)) == errors
    assert decisive(group) is expected


def test_the_other_errors_are_notes_and_the_place_is_that_of_the_group() -> None:
    try:
        raise ExceptionGroup("tasks", [NotOwned("a"), ValueError("b")])
    except ExceptionGroup as group:
        error = decisive(group)
    assert (str(error), error.__notes__) == ("b", ["in one group with NotOwned: a"])
    assert error.__traceback__ is not None
    assert decisive(error) is error


def test_groups_may_be_nested_to_any_depth() -> None:
    error = ValueError("deep")
    group = ExceptionGroup("tasks", [error])
    for _ in range(5_000):
        group = ExceptionGroup("tasks", [group])
    assert decisive(group) is error


@dataclass(frozen=True)
class _Frozen(Exception):
    text: str


def test_an_error_of_a_group_may_be_frozen() -> None:
    error = _Frozen("no price")
    assert decisive(ExceptionGroup("tasks", [error, ValueError("other")])) is error
