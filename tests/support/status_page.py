"""The status pages of a running host, parsed: their rows, links and plain text."""

from __future__ import annotations

import gzip
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 60.0
#: Elements without an end.
_VOID = frozenset({"meta", "link", "path", "wbr"})


@dataclass
class Element:
    """An element of a page."""

    name: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text inside, the parts separated by spaces."""
        texts = (child if isinstance(child, str) else child.text for child in self.children)
        return " ".join(" ".join(texts).split())

    def all(self, name: str = "") -> Iterator[Element]:
        """Return the elements inside, of one name or of all."""
        for child in self.children:
            if isinstance(child, Element):
                if name in ("", child.name):
                    yield child
                yield from child.all(name)


class _Parser(HTMLParser):
    """Builds the elements; each has to be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        element = Element(tag, dict(attrs))
        assert len(element.attributes) == len(attrs), (tag, attrs)
        self._open[-1].children.append(element)
        if tag not in _VOID or self._open[-1].name == "svg":
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID and self._open[-1].name != tag:
            return
        assert self._open.pop().name == tag, tag

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def whole(self) -> Element:
        assert self._open == [self.root]
        return self.root


def parse(text: str) -> Element:
    """Return HTML as elements; AssertionError if it is malformed."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    return parser.whole()


class Page:
    """A status page; its ids are unique."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.source = (gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body).decode()
        self.root = parse(self.source)
        ids = [element.attributes["id"] for element in self.root.all() if "id" in element.attributes]
        assert len(ids) == len(set(ids)), sorted(identifier for identifier in ids if ids.count(identifier) > 1)

    @property
    def text(self) -> str:
        return self.root.text

    @property
    def links(self) -> list[str]:
        """The addresses of all links, those within the page too."""
        return [link.attributes["href"] or "" for link in self.root.all("a")]

    def section(self, name: str) -> list[Element]:
        """Return the rows of a section; none if the page has no such section."""
        boxes = (element for element in self.root.all() if element.attributes.get("data-rows") == name)
        return [child for box in boxes for child in box.children if isinstance(child, Element)]

    def rows(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a table as texts by the names of their columns, those that are well last."""
        rows = []
        for table in self.root.all("table"):
            (body,) = table.all("tbody")
            if body.attributes["data-rows"] not in (name, f"{name}-well"):
                continue
            heads = [cell.text for cell in table.all("th") if cell.attributes.get("scope") == "col"]
            for row in body.all("tr"):
                cells = [child for child in row.children if isinstance(child, Element)]
                if len(cells) == len(heads):
                    rows.append(dict(zip(heads, (cell.text for cell in cells), strict=True)))
        return rows

    def row(self, name: str, first: str) -> dict[str, str]:
        """Return the row of a table whose first cell has this text."""
        (row,) = (row for row in self.rows(name) if next(iter(row.values())) == first)
        return row


def address_of(host: Any) -> str:
    address = host.host.address if hasattr(host, "host") else host.address
    return f"http://{address}"


def page_at(host: Any, path: str = "/", **headers: str) -> Page:
    """Return the page at a path of a host under test, or of a host process."""
    request = urllib.request.Request(address_of(host) + path, headers={"Accept": "text/html", **headers})
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return Page(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Page(error.code, error.headers, error.read())


def get(host: Any, path: str, **headers: str) -> tuple[int, Any, bytes]:
    """Return status, headers and body of an answer."""
    request = urllib.request.Request(address_of(host) + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()
