"""Rows of text that `ctrlhost top` shows: as wide as a terminal, with a style, and with what the Enter key opens."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.cli.table import CUT, Column, table, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost.cli.running_host import Answer, RunningHost

#: Styles of `rich` that repeat what the text says.
PLAIN, HEADING, BAD, FAINT, ALARM = "", "bold", "red", "dim", "bold red"
#: The least width of the text beside the columns of a table, and its lines there; a longer one is below them.
_BESIDE, _BESIDE_LINES = 26, 2
#: The lines of a text in a table, at most; what it opens has all of it.
_LINES = 6
_INDENT = "    "
_MORE = " …"


class View(Protocol):
    """What the screen shows: what it asks the host for, and the rows of the answer."""

    @property
    def title(self) -> str:
        """The name of what it shows; empty for the first view."""
        ...

    @property
    def controller(self) -> str:
        """The controller that it is about; empty for none."""
        ...

    @property
    def key(self) -> str:
        """The key that it is about; empty for none."""
        ...

    def ask(self, host: RunningHost) -> Answer:
        """Ask for what the status of the host does not have; CtrlhostError if the host does not know it."""
        ...

    def rows(self, status: Answer, answer: Answer, width: int | None) -> list[Row]:
        """Return the rows, in `width` columns at most; None for no limit."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """A row of one or more lines. The cursor stays on the row of a `name` when others come and go before it."""

    lines: tuple[str, ...]
    style: str = PLAIN
    name: str = ""
    #: What the Enter key opens.
    opens: View | None = field(default=None, compare=False)

    @property
    def is_heading(self) -> bool:
        """Whether the row is the heading of those after it."""
        return self.style == HEADING

    @property
    def is_passed(self) -> bool:
        """Whether the cursor passes over the row."""
        return self.style in (HEADING, ALARM)

    def has(self, text: str) -> bool:
        """Return whether the row has this text, in lower case."""
        return text in " ".join(self.lines).lower()


@dataclass(frozen=True, slots=True)
class Entry:
    """The cells of one row of a table, and the text after them."""

    cells: Sequence[Any]
    text: str
    style: str = PLAIN
    name: str = ""
    opens: View | None = None


def rows_of(columns: Sequence[Column], text: str, entries: Sequence[Entry], width: int | None) -> list[Row]:
    """Return the heading and the rows of a table whose last column has texts that may need several lines."""
    room = None if width is None else max(width - _BESIDE, width // 2)
    lines = table(columns, [entry.cells for entry in entries], room)
    # A table takes the blanks at the end of lines away.
    left = max(map(len, lines)) + 2
    rows = [Row((lines[0].ljust(left) + text,), HEADING)]
    for entry, cells in zip(entries, lines[1:], strict=True):
        above, line = _with_name(visible(entry.cells[0]), cells, width)
        texts = wrapped(entry.text, None if width is None else width - left)
        if width is not None and len(texts) > _BESIDE_LINES:
            parts = (line, *(_INDENT + part for part in wrapped(entry.text, width - len(_INDENT))))
        else:
            parts = (line.ljust(left) + "".join(texts[:1]), *(" " * left + part for part in texts[1:]))
        rows.append(Row((*above, *(part.rstrip() for part in parts)), entry.style, entry.name, entry.opens))
    return rows


def _with_name(name: str, line: str, width: int | None) -> tuple[tuple[str, ...], str]:
    """Return the lines before that of the cells, and it: a name that has no room there has a line of its own."""
    if line.lstrip().startswith(name):
        return (), line
    cut = line.index(CUT) + 1
    return wrapped(name, width), " " * cut + line[cut:]


def wrapped(text: str, width: int | None, lines: int = _LINES) -> tuple[str, ...]:
    """Return the lines of a text, whose control characters are shown as escapes."""
    plain = visible(text)
    if width is None:
        return (plain,)
    return tuple(textwrap.wrap(plain, max(width, 10), max_lines=lines, placeholder=_MORE, break_on_hyphens=False))


def facts_of(facts: Iterable[tuple[str, str]], width: int | None) -> list[Row]:
    """Return rows of names and their values; a value without a name continues the one before."""
    rows = []
    for name, fact in facts:
        first, *more = wrapped(fact, None if width is None else width - 12, 100) or ("",)
        rows.append(Row((f"{name:<10}  {first}".rstrip(), *(" " * 12 + line for line in more))))
    return rows


def lines_of(text: str, width: int | None) -> list[Row]:
    """Return a row for each line of a text such as a traceback, whose indentation is kept."""
    rows = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        parts = wrapped(line.strip(), None if width is None else width - len(indent) - len(_INDENT), 100)
        rows.append(Row(tuple(f"{indent}{_INDENT if at else ''}{part}" for at, part in enumerate(parts)) or ("",)))
    return rows


def matching(rows: Sequence[Row], text: str) -> list[Row]:
    """Return the rows with this text, and the headings of those that are left."""
    if not text:
        return list(rows)
    wanted, left = text.lower(), list[Row]()
    for row in reversed(rows):
        if row.is_heading:
            if left and not left[-1].is_heading:
                left.append(row)
        elif row.has(wanted):
            left.append(row)
    return left[::-1]
