"""Numbers, times and addresses as pages show them."""

from __future__ import annotations

from urllib.parse import quote

from ctrlhost.server.html import Html, tag

NONE = "\N{EN DASH}"

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def seconds(value: float | None) -> str:
    """Return a duration in one unit, with one digit after the point below ten."""
    if value is None:
        return NONE
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.{1 if value < 10 * size else 0}f} {unit}"
    if value >= 1:
        return f"{value:.0f} s"
    return f"{value * 1000:.{1 if 0 < value < 0.01 else 0}f} ms"


def age(value: float | None) -> str:
    """Return an age, which changes once a second at most."""
    if value is None:
        return NONE
    return f"{int(value)} s" if value < 60 else seconds(value)


def rate(value: float | None) -> str:
    """Return something per second."""
    return NONE if value is None else f"{value:,.{2 if 0 < value < 0.1 else 1}f}"


def count(value: float) -> str:
    """Return a whole number."""
    return f"{value:,.0f}"


def size(value: float) -> str:
    """Return bytes in one unit."""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.{1 if unit != 'B' and value < 100 else 0}f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def clock(moment: str) -> str:
    """Return a time in UTC to the second."""
    return moment[:19].replace("T", " ")


def plugin_link(name: str) -> Html:
    """Return a link to the page of a plugin."""
    return tag("a", name, href=f"/status/plugins/{quote(name)}")


def controller_link(name: str) -> Html:
    """Return a link to the page of a controller."""
    return tag("a", name, href=f"/status/controllers/{quote(name)}")


def key_link(controller: str, key: str) -> Html:
    """Return a link to the page of a key; the empty key has none."""
    if not key:
        return tag("i", "empty")
    return tag("a", key, href=f"/status/keys/{quote(controller)}?key={quote(key, safe='/:', errors='replace')}")
