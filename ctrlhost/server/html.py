"""HTML as text: what is no `Html` is escaped, and control characters are shown, not sent."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Where the pictures of control characters begin.
_PICTURES = 0x2400
_SEPARATORS = re.compile(r"[.,](?=\S)")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def html(value: object) -> str:
    """Return a value as HTML: as it is if it is `Html`, else escaped, in one line."""
    if isinstance(value, Html):
        return value
    text = str(value)
    if not text.isprintable():
        text = "".join(map(_printable, text))
    return escape(text)


def breakable(value: object) -> Html:
    """Return a value as HTML that may be broken into lines after its dots and commas."""
    return Html(_SEPARATORS.sub(r"\g<0><wbr>", html(value)))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """Return an element; attributes that are None or False are left out, and `_` in their names is `-`."""
    return Html(f"<{name}{_attributes(attributes)}>{''.join(map(html, children))}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Html:
    """Return the parts as HTML, with a text between them."""
    return Html(escape(between).join(map(html, parts)))


def _attributes(attributes: dict[str, object]) -> str:
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = name.rstrip("_").replace("_", "-")
        parts.append(f" {attribute}" if value is True else f' {attribute}="{html(value)}"')
    return "".join(parts)


def _printable(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if char.isspace():
        return " "
    if code < 0x20:
        return chr(_PICTURES + code)
    # Lone surrogates cannot be encoded; marks of direction would reorder what follows.
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else "\N{REPLACEMENT CHARACTER}"
