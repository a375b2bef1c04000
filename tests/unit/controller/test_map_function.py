"""How a map says that it takes caches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from ctrlhost.controller.map_function import takes_caches


class OfOne:
    def __call__(self, obj: Any) -> list[Any]:
        return []

    def of_two(self, obj: Any, caches: Any) -> list[Any]:
        return []


def three(first: Any, obj: Any, caches: Any) -> list[Any]:
    return []


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda obj: [], False),
        (lambda obj, caches: [], True),
        (lambda obj, bound=1: [], False),
        (lambda *arguments: [], False),
        (lambda obj, caches, *, option=1: [], True),
        (OfOne(), False),
        (OfOne().of_two, True),
        (functools.partial(three, 1), True),
        (functools.partial(three, 1, 2), False),
        (three, False),
        (list, False),
        (str.upper, False),
    ],
)
def test_the_parameters_of_a_map_decide(function: Callable[..., Any], wanted: bool) -> None:
    assert takes_caches(function) is wanted
