"""The ids of rows are unique, and are those that a browser reads from the HTML."""

from __future__ import annotations

import pytest

from ctrlhost.server.page import Row, table_row
from ctrlhost.status.model import FailingKey
from ctrlhost.status.pages.tables import failing, unique
from tests.support.status_page import Element, parse


def id_of(row: Row) -> str | None:
    (element,) = parse(row.html).children
    assert isinstance(element, Element)
    return element.attributes["id"]


@pytest.mark.parametrize("row_id", ["a", "a&b", "<a>", "'a\"", "\N{SNOWMAN} a", "a%20&amp;"])
def test_rows_with_the_same_id_get_ids_of_their_own(row_id: str) -> None:
    rows = unique([table_row(row_id, [f'id="{row_id}"']) for _ in range(3)])
    assert len({row.id for row in rows}) == 3
    assert [id_of(row) for row in rows] == [row.id for row in rows]


def test_failing_keys_with_the_same_text_have_rows_of_their_own() -> None:
    keys = [FailingKey("demo/c", "a/b", failures, 1.0, "KeyError", "a.py:1", "0-1", "0a") for failures in (3, 2)]
    (section,) = failing(keys)
    rows = section.rows
    assert [id_of(row) for row in rows] == [row.id for row in rows] == ["f-demo/c/a/b", "f-demo/c/a/b+"]
