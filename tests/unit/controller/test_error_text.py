"""The text of an error that a plugin raised."""

from __future__ import annotations

import pytest

from ctrlhost.controller.error_text import LIMIT, line_of


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\n  two"), "ValueError: one two"),
        (ValueError(), "ValueError"),
        (Unspeakable(), "Unspeakable"),
        (ValueError("\N{GRINNING FACE} \udcff.txt \ud800"), "ValueError: \N{GRINNING FACE} \ufffd.txt \ufffd"),
        (ValueError("x" * LIMIT), f"ValueError: {'x' * LIMIT}"),
        (ValueError("x" * (LIMIT + 1)), f"ValueError: {'x' * LIMIT} …"),
    ],
)
def test_an_error_is_one_line_of_bounded_length(error: BaseException, line: str) -> None:
    assert line_of(error) == line
