"""A page of the host: sections of rows with ids, by which an open page finds what has changed."""

from __future__ import annotations

import hashlib
import re
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
#: Ages grow with each rendering, and an open page lets them grow by itself.
_AGES = re.compile(r"(<time [^>]*>)[^<]*")
_CELL = re.compile(r"<t[dh](?= |>)")


class Address(NamedTuple):
    """The path of a page, and the parameters that it reads."""

    path: str
    query: tuple[tuple[str, str], ...] = ()


class Row(NamedTuple):
    """One element of a section; its HTML has the id as an attribute."""

    id: str
    html: str


class Column(NamedTuple):
    """The head of a column; numbers are aligned to the right, and `note` explains it.

    On a phone, a row is a card; it leaves out the `minor` columns, which a page of its own has.
    """

    name: str
    number: bool = False
    note: str = ""
    minor: bool = False

    def head(self) -> Html:
        """Return its cell in the head of a table."""
        return tag("th", self.name, scope="col", class_="n" if self.number else None, title=self.note or None)

    def label(self) -> str:
        """Return the attribute with which a cell of it names itself in a card."""
        return " data-m" if self.minor else f' data-l="{html(self.name.partition(",")[0])}"'


@dataclass(frozen=True, slots=True)
class Section:
    """Rows in their order, inside of an element that does not change.

    With `columns` they are the rows of a table, else items of a list if `items`. Without a title they have no heading.
    """

    name: str
    rows: list[Row]
    title: str = ""
    columns: tuple[Column, ...] = ()
    note: str = ""
    items: bool = False
    #: What the heading of a section that is closed at first says beside the title; None for an open one.
    fold: str | None = None

    def html(self) -> Html:
        """Return the whole section."""
        heading = tag("h2", self.title, id=f"h-{self.name}") if self.title else ""
        note = tag("p", self.note, class_="note", data_part="note") if self.note else ""
        content = join_html(note, self._box())
        if self.fold is not None:
            summary = tag("summary", heading, " ", tag("span", self.fold, class_="quiet", data_part="fold"))
            content = tag("details", summary, content)
        else:
            content = join_html(heading, content)
        return tag("section", content, id=f"s-{self.name}")

    def _box(self) -> Html:
        if not self.columns:
            rows = Html("".join(row.html for row in self.rows))
            return tag("ul" if self.items else "div", rows, data_rows=self.name, class_=self.name)
        labels = ["", *(column.label() for column in self.columns[1:])]
        rows = Html("".join(_labelled(row.html, labels) for row in self.rows))
        head = tag("thead", tag("tr", *(column.head() for column in self.columns)))
        table = tag("table", head, tag("tbody", rows, data_rows=self.name), aria_labelledby=f"h-{self.name}")
        return tag("div", table, class_="wide", role="region", tabindex="0", aria_labelledby=f"h-{self.name}")


def join_html(*parts: str) -> Html:
    """Return HTML after each other."""
    return Html("".join(parts))


def _labelled(row: str, labels: list[str]) -> str:
    """Return the row of a table whose cells name their columns; one with other cells stays as it is."""
    parts = _CELL.split(row)
    if len(parts) != len(labels) + 1:
        return row
    starts = [match[0] + label for match, label in zip(_CELL.finditer(row), labels, strict=True)]
    return parts[0] + "".join(start + part for start, part in zip(starts, parts[1:], strict=True))


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its sections; `trail` are the pages above it, by name and address.

    `state` is how what it shows is, which the title of its tab begins with.
    """

    title: str
    sections: list[Section]
    trail: tuple[tuple[str, str], ...] = ()
    #: The status of HTTP.
    status: int = 200
    state: str = ""

    @property
    def tab(self) -> str:
        """The title of its tab."""
        return f"{self.state} \N{MIDDLE DOT} {self.title}" if self.state else self.title


def problem_page(status: int, error: str, hint: str | None = None) -> Page:
    """Return a page that says why there is no other one, and leads back."""
    texts: list[object] = [text for text in (f"error: {error}", f"hint: {hint}" if hint else "") if text]
    texts.append(Html(f"Go back to {tag('a', 'the page of the host', href='/')}."))
    rows = [Row(f"problem-{at}", tag("p", text, id=f"problem-{at}")) for at, text in enumerate(texts)]
    return Page(f"{status} {error}", [Section("facts", rows)], trail=(("Host", "/"),), status=status)


def entity_tag(page: Page) -> str:
    """Return the entity tag of a page; renderings that differ in ages and their time only have the same one."""
    digest = hashlib.sha256(page.tab.encode(errors="replace"))
    for section in page.sections:
        digest.update(f"\n{section.name} {section.title} {section.fold} ".encode(errors="replace"))
        for row in section.rows:
            if row.id != TIME_ROW:
                digest.update(_AGES.sub(r"\1", row.html).encode(errors="replace"))
    return f'W/"{digest.hexdigest()[:32]}"'


def document(page: Page, style: str, script: str) -> bytes:
    """Return the page as a document with these addresses of its style and script."""
    trail = [tag("a", name, href=address) for name, address in page.trail]
    # What is a problem now remains one.
    live = "" if page.status != 200 else (
        f'<script type="module" src="{script}"></script>'
        f'<noscript><meta http-equiv="refresh" content="{_RELOAD}"></noscript>'
    )  # fmt: skip
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'{tag("title", page.tab)}<link rel="icon" href="{_ICON}">'
        f'<link rel="stylesheet" href="{style}">{live}</head><body>'
        '<a class="skip" href="#main">Skip to the content</a>'
        f"<header>{tag('nav', *trail, aria_label='Pages above') if trail else ''}{tag('h1', page.title)}"
        '<p id="live" role="status"></p></header>'
        f'<main id="main" tabindex="-1">{"".join(_parts(page.sections))}</main></body></html>\n'
    )
    return text.encode()


def _parts(sections: list[Section]) -> Iterable[str]:
    """Return the HTML of the sections; what helps to find others of them comes after those that say how it is."""
    lead = next((at for at, section in enumerate(sections) if section.columns), len(sections))
    jumps = [tag("a", section.title, href=f"#h-{section.name}") for section in sections if section.columns]
    yield from (section.html() for section in sections[:lead])
    if jumps:
        links = tag("nav", *(jumps if len(jumps) > 1 else ()), aria_label="Sections", data_part="jumps")
        yield tag("div", links, id="tools", class_="tools")
    yield from (section.html() for section in sections[lead:])


def table_row(row_id: str, cells: Iterable[object], kind: str = "") -> Row:
    """Return the row of a table; cells that are no `Cell` become one. The id may be any text."""
    content = "".join(cell if type(cell) is Cell else f"<td>{html(cell)}</td>" for cell in cells)
    return element_row("tr", row_id, Html(content), kind)


def element_row(name: str, row_id: str, content: object, kind: str = "") -> Row:
    """Return a row as an element of this name. The id may be any text."""
    if not (row_id.isascii() and row_id.isprintable() and " " not in row_id):
        row_id = quote(row_id, safe="/:", errors="replace")
    return Row(row_id, tag(name, content, id=row_id, class_=kind or None))


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
