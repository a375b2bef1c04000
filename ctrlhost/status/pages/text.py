"""Numbers, times and addresses as pages show them."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from ctrlhost.server.html import Html, join, tag
from ctrlhost.status import amounts

NONE = "\N{EN DASH}"


def seconds(value: float | None) -> str:
    """Return a duration."""
    return NONE if value is None else amounts.seconds(value)


def age(value: float | None) -> str:
    """Return an age, which changes once a second at most."""
    if value is None:
        return NONE
    return f"{int(value)} s" if value < 60 else seconds(value)


def rate(value: float | None) -> str:
    """Return something per second."""
    return NONE if value is None else amounts.rate(value)


def count(value: float) -> str:
    """Return a whole number."""
    return f"{value:,.0f}"


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


def ago(moment: str, now: str) -> Html:
    """Return how long ago a moment is; an open page lets the age grow, and shows the moment on hover."""
    elapsed = (datetime.fromisoformat(now) - datetime.fromisoformat(moment)).total_seconds()
    return tag("time", f"{age(max(elapsed, 0.0))} ago", datetime=moment)


def since(moment: str, now: str) -> Html:
    """Return since when something is so, and how long that is."""
    return join((f"since {moment[11:16]} UTC (", ago(moment, now), ")"))


def command(text: str) -> Html:
    """Return a command, which one click selects."""
    return tag("code", text, class_="cmd")


def code_lines(text: str) -> Html:
    """Return a text of several lines as it is, such as a traceback."""
    return tag("pre", *(tag("span", line or " ", class_="line") for line in text.splitlines()))
