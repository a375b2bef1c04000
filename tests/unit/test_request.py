"""The text of a request."""

from __future__ import annotations

import pytest

from ctrlhost import Request


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (Request("a", "default"), "default/a"),
        (Request("node-1"), "node-1"),
        (Request("a", "default", "north"), "north/default/a"),
        (Request(""), ""),
    ],
)
def test_a_request_is_shown_as_its_namespace_and_name(request_: Request, text: str) -> None:
    assert str(request_) == text
