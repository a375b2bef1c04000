"""Tables: widths, columns that are left out, and texts of plugins that cannot change what a terminal shows."""

from __future__ import annotations

import pytest

from ctrlhost.cli.table import Column, table, visible

COLUMNS = (Column("KEY"), Column("N", right=True), Column("SPARE", rank=0), Column("MORE", rank=1), Column("STATE"))
ROWS = [["default/one", 7, "s", "m", "ok"], ["x", 12_000, "s", "m", "a rather long state of the thing"]]


def test_a_table_without_a_limit_is_whole() -> None:
    assert table(COLUMNS, ROWS) == [
        "KEY              N  SPARE  MORE  STATE",
        "default/one      7  s      m     ok",
        "x            12000  s      m     a rather long state of the thing",
    ]


@pytest.mark.parametrize(
    ("width", "heading", "end"),
    [
        (66, ["KEY", "N", "SPARE", "MORE", "STATE"], "the thing"),
        (50, ["KEY", "N", "SPARE", "MORE", "STATE"], "…"),
        (44, ["KEY", "N", "MORE", "STATE"], "…"),
        (37, ["KEY", "N", "STATE"], "…"),
    ],
)
def test_columns_are_left_out_in_the_order_of_their_ranks(width: int, heading: list[str], end: str) -> None:
    lines = table(COLUMNS, ROWS, width)
    assert lines[0].split() == heading
    assert lines[2].endswith(end)
    assert all(len(line) <= width for line in lines)


def test_a_long_first_column_shrinks_after_the_last_one() -> None:
    rows = [["k" * 60, 1, "", "", "s" * 60]]
    line = table(COLUMNS, rows, 80)[1]
    assert len(line) == 80
    assert line.count("…") == 2
    assert line.endswith(f"{'s' * 15}…")


def test_a_table_without_rows_is_its_heading() -> None:
    assert table(COLUMNS, [], 80) == ["KEY  N  SPARE  MORE  STATE"]


@pytest.mark.behaviour("operations/OP49")
@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("<script>{{ é 日本", "<script>{{ é 日本"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("one\ntwo\r\n\ttab", r"one\ntwo\r\n\ttab"),
        ("\x9b2J\u2028line\u202eright\ud800", r"\x9b2J\u2028line\u202eright\ud800"),
    ],
)
def test_text_that_a_terminal_would_obey_is_shown_as_text(text: str, escaped: str) -> None:
    assert visible(text) == escaped
    assert table([Column("TEXT")], [[text]]) == ["TEXT", escaped]
