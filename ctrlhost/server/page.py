"""A page of the host: sections of rows with ids, by which an open page finds what has changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from ctrlhost.server.html import Html, html, tag

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Seconds after which a page without script loads itself again.
_RELOAD = 10
#: The row with the time of the rendering.
TIME_ROW = "updated"
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E"
    "%3Ccircle cx='4' cy='4' r='3' fill='%232563eb'/%3E%3C/svg%3E"
)


class Address(NamedTuple):
    """The path of a page, and the parameters that it reads."""

    path: str
    query: tuple[tuple[str, str], ...] = ()


class Row(NamedTuple):
    """One element of a section; its HTML has the id as an attribute."""

    id: str
    html: str


class Column(NamedTuple):
    """The head of a column; numbers are aligned to the right, and `note` explains it."""

    name: str
    number: bool = False
    note: str = ""

    def head(self) -> Html:
        """Return its cell in the head of a table."""
        return tag("th", self.name, scope="col", class_="n" if self.number else None, title=self.note or None)


@dataclass(frozen=True, slots=True)
class Section:
    """Rows in their order, inside of an element that does not change.

    With `columns` they are the rows of a table, without a title they have no heading.
    """

    name: str
    rows: list[Row]
    title: str = ""
    columns: tuple[Column, ...] = ()
    note: str = ""

    def html(self) -> Html:
        """Return the whole section."""
        rows = Html("".join(row.html for row in self.rows))
        if not self.columns:
            inner = tag("div", rows, data_rows=self.name, class_=self.name)
        else:
            head = tag("thead", tag("tr", *(column.head() for column in self.columns)))
            table = tag("table", head, tag("tbody", rows, data_rows=self.name), aria_labelledby=f"h-{self.name}")
            region = {"role": "region", "tabindex": "0", "aria_labelledby": f"h-{self.name}"}
            inner = tag("div", table, class_="wide", **region)
        note = tag("p", self.note, class_="note") if self.note else ""
        heading = tag("h2", self.title, id=f"h-{self.name}") if self.title else ""
        return tag("section", heading, note, inner)


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its sections; `trail` are the pages above it, by name and address."""

    title: str
    sections: list[Section]
    trail: tuple[tuple[str, str], ...] = ()
    #: The status of HTTP.
    status: int = 200


def problem_page(status: int, error: str, hint: str | None = None) -> Page:
    """Return a page that says why there is no other one."""
    texts = [text for text in (f"error: {error}", f"hint: {hint}" if hint else "") if text]
    rows = [Row(f"problem-{at}", tag("p", text, id=f"problem-{at}")) for at, text in enumerate(texts)]
    return Page(f"{status} {error}", [Section("facts", rows)], trail=(("Host", "/"),), status=status)


def entity_tag(page: Page) -> str:
    """Return the entity tag of a page; renderings that show the same at different times have the same one."""
    digest = hashlib.sha256(page.title.encode(errors="replace"))
    for row in (row for section in page.sections for row in section.rows if row.id != TIME_ROW):
        digest.update(row.html.encode(errors="replace"))
    return f'W/"{digest.hexdigest()[:32]}"'


def document(page: Page, style: str, script: str) -> bytes:
    """Return the page as a document with these addresses of its style and script."""
    trail = [tag("a", name, href=address) for name, address in page.trail]
    jumps = [
        tag("a", section.title, href=f"#h-{section.name}")
        for section in page.sections
        if section.title and section.columns
    ]
    # What is a problem now remains one.
    live = "" if page.status != 200 else (
        f'<script type="module" src="{script}"></script>'
        f'<noscript><meta http-equiv="refresh" content="{_RELOAD}"></noscript>'
    )  # fmt: skip
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'{tag("title", page.title)}<link rel="icon" href="{_ICON}">'
        f'<link rel="stylesheet" href="{style}">{live}</head><body>'
        '<a class="skip" href="#main">Skip to the content</a>'
        f"<header>{tag('nav', *trail, aria_label='Pages above') if trail else ''}{tag('h1', page.title)}"
        '<p id="live" role="status"></p></header>'
        f"{tag('nav', *jumps, class_='jumps', aria_label='Sections') if len(jumps) > 1 else ''}"
        f'<main id="main" tabindex="-1">{"".join(section.html() for section in page.sections)}</main></body></html>\n'
    )
    return text.encode()


def table_row(row_id: str, cells: Iterable[object], kind: str = "") -> Row:
    """Return the row of a table; cells that are no `Cell` become one. The id may be any text."""
    if not (row_id.isascii() and row_id.isprintable() and " " not in row_id):
        row_id = quote(row_id, safe="/:", errors="replace")
    content = "".join(cell if type(cell) is Cell else f"<td>{html(cell)}</td>" for cell in cells)
    return Row(row_id, tag("tr", Html(content), id=row_id, class_=kind or None))


class Cell(Html):
    """The HTML of a whole cell."""

    __slots__ = ()


def head_cell(value: object) -> Cell:
    """Return the cell that names its row."""
    return Cell(f'<th scope="row">{html(value)}</th>')


def number_cell(value: object) -> Cell:
    """Return a cell with a number."""
    return Cell(f'<td class="n">{html(value)}</td>')


def text_cell(value: object) -> Cell:
    """Return a cell with a text that may be long."""
    return Cell(f'<td class="t">{html(value)}</td>')


def code_cell(value: object) -> Cell:
    """Return a cell with a text that is not broken into lines."""
    return Cell(f'<td class="c">{html(value)}</td>')
