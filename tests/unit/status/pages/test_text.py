from __future__ import annotations

import pytest

from ctrlhost.server.page import table_row
from ctrlhost.status.amounts import size
from ctrlhost.status.pages.tables import unique
from ctrlhost.status.pages.text import NONE, age, count, key_link, rate, seconds


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, NONE), (0.0, "0 ms"), (0.00123, "1.2 ms"), (0.08, "80 ms"), (1.0, "1 s"), (59.0, "59 s"), (90.0, "1.5 min"),
     (3600.0, "1.0 h"), (86400 * 3.5, "3.5 d"), (86400 * 20, "20 d")],
)  # fmt: skip
def test_durations_have_one_unit(value: float | None, expected: str) -> None:
    assert seconds(value) == expected


def test_numbers() -> None:
    assert [age(value) for value in (None, 0.4, 3.9, 61.0)] == [NONE, "0 s", "3 s", "1.0 min"]
    assert [rate(value) for value in (None, 0.0, 0.017, 41.23, 1234.5)] == [NONE, "0.0", "0.02", "41.2", "1,234.5"]
    assert [size(value) for value in (0, 1023, 1 << 20, 150 << 20, 3 << 30)] == [
        "0 B", "1023 B", "1.0 MiB", "150 MiB", "3.0 GiB",
    ]  # fmt: skip
    assert count(1_000_000) == "1,000,000"


def test_addresses_and_ids_of_any_key_are_valid() -> None:
    assert key_link("p/c", "") == "<i>empty</i>"
    assert key_link("p/c", "a b/c&d?e#f") == ('<a href="/status/keys/p/c?key=a%20b/c%26d%3Fe%23f">a b/c&amp;d?e#f</a>')
    row = table_row("k-a b\n\udc80é", ["x"])
    assert row.id == "k-a%20b%0A%3F%C3%A9"
    assert row.html.startswith(f'<tr id="{row.id}">')
    twice = unique([table_row("a", ["1"]), table_row("a", ["2"]), table_row("a", ["3"])])
    assert [entry.id for entry in twice] == ["a", "a+", "a++"]
    assert [entry.html[: len(entry.id) + 10] for entry in twice] == [f'<tr id="{entry.id}">' for entry in twice]
