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
        made = Element(tag, dict(attrs))
        assert len(made.attributes) == len(attrs), (tag, attrs)
        self._open[-1].children.append(made)
        if tag not in _VOID or self._open[-1].name == "svg":
            self._open.append(made)

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
        ids = [one.attributes["id"] for one in self.root.all() if "id" in one.attributes]
        assert len(ids) == len(set(ids)), sorted(one for one in ids if ids.count(one) > 1)

    @property
    def text(self) -> str:
        return self.root.text

    @property
    def links(self) -> list[str]:
        """The addresses of all links, those within the page too."""
        return [one.attributes["href"] or "" for one in self.root.all("a")]

    def section(self, name: str) -> list[Element]:
        """Return the rows of a section."""
        (box,) = (one for one in self.root.all() if one.attributes.get("data-rows") == name)
        return [child for child in box.children if isinstance(child, Element)]

    def rows(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a table as texts by the names of their columns; empty if it says that there are none."""
        table = next(
            one
            for one in self.root.all("table")
            if any(body.attributes["data-rows"] == name for body in one.all("tbody"))
        )
        heads = [one.text for one in table.all("th") if one.attributes.get("scope") == "col"]
        found = []
        for row in self.section(name):
            cells = [one for one in row.children if isinstance(one, Element)]
            if len(cells) == len(heads):
                found.append(dict(zip(heads, (one.text for one in cells), strict=True)))
        return found

    def row(self, name: str, first: str) -> dict[str, str]:
        """Return the row of a table whose first cell has this text."""
        (found,) = (row for row in self.rows(name) if next(iter(row.values())) == first)
        return found


def address_of(host: Any) -> str:
    address = host.host.address if hasattr(host, "host") else host.address
    return f"http://{address}"


def page_at(host: Any, path: str = "/", **headers: str) -> Page:
    """Return the page at a path of a host under test, or of a host process."""
    asked = urllib.request.Request(address_of(host) + path, headers={"Accept": "text/html", **headers})
    try:
        with urllib.request.urlopen(asked, timeout=LIMIT) as answer:
            return Page(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Page(error.code, error.headers, error.read())


def get(host: Any, path: str, **headers: str) -> tuple[int, Any, bytes]:
    """Return status, headers and body of an answer."""
    asked = urllib.request.Request(address_of(host) + path, headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=LIMIT) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()
