"""Tables of plain text, as wide as a terminal or without a limit."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "
#: The end of a text that was cut.
CUT = "…"
#: The least width of the first and of the last column while other columns can be left out, and of the first after that.
_FIRST, _LAST, _LEAST = 40, 16, 12
#: Categories of Unicode whose characters may change what a terminal shows elsewhere, or begin a new line.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column; those with the lowest rank are left out first where there is no room, and None is never left out."""

    title: str
    right: bool = False
    rank: int | None = None


def visible(text: object) -> str:
    """Return a text with control characters, line ends and the like as escapes, such as `\\x1b`, on one line."""
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(_escaped(char) if unicodedata.category(char) in _INVISIBLE else char for char in plain)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int | None = None) -> list[str]:
    """Return the lines of a table, of which the first is the heading, in `width` columns at most.

    The texts are shown as `visible` returns them.
    """
    heading = [column.title for column in columns]
    cells = [heading, *([visible(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    visible_columns = list(range(len(columns)))
    if width is not None:
        visible_columns = _fitting(columns, widths, width)
        _shrink(
            [visible_columns[0], visible_columns[-1]],
            widths,
            width - len(_GAP) * (len(visible_columns) - 1) - sum(widths[at] for at in visible_columns),
        )
    lines = []
    for row in cells:
        fields = [_cropped(row[at], widths[at]) for at in visible_columns]
        padded = [
            field.rjust(widths[at]) if columns[at].right else field.ljust(widths[at])
            for at, field in zip(visible_columns, fields, strict=True)
        ]
        lines.append(_GAP.join(padded).rstrip())
    return lines


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> None:
    """Print a whole table on stdout."""
    click.echo("\n".join(table(columns, rows)))


def _fitting(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """Return the columns that have room, if the first and the last one shrink."""
    visible_columns = list(range(len(columns)))
    least = [*widths]
    least[0], least[-1] = min(widths[0], _FIRST), min(widths[-1], _LAST)
    ranked = sorted((column.rank, at) for at, column in enumerate(columns) if column.rank is not None)
    for _, at in ranked:
        if sum(least[column] for column in visible_columns) + len(_GAP) * (len(visible_columns) - 1) <= width:
            break
        visible_columns.remove(at)
    return visible_columns


def _shrink(ends: Sequence[int], widths: list[int], room: int) -> None:
    """Take what is missing from the last column first, then from the first one."""
    for at, least in zip(reversed(ends), (_LAST, _LEAST), strict=True):
        if room < 0 and widths[at] > least:
            taken = min(-room, widths[at] - least)
            widths[at] -= taken
            room += taken


def _cropped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + CUT
