"""Plots as lines of SVG. Samples that are missing leave a gap in the line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.server.html import Html, tag
from ctrlhost.server.page import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The height of a plot in units of its own; it is stretched to the room that it has.
_HEIGHT = 100
_SPARK_HEIGHT = 10


class Line(NamedTuple):
    """One line of a plot."""

    name: str
    values: Sequence[float | None]


def sparkline(values: Sequence[float | None]) -> Html:
    """Return a small plot of what the row says in numbers; empty without samples."""
    known = [value for value in values if value is not None]
    if not known:
        return Html("")
    line = path(values, max(known), _SPARK_HEIGHT)
    box = f"0 0 {len(values)} {_SPARK_HEIGHT}"
    return Html(f'<svg class="spark" viewBox="{box}" aria-hidden="true"><path d="{line}"/></svg>')


def figure(row_id: str, title: str, lines: Sequence[Line], show: Callable[[float | None], str], span: float) -> Row:
    """Return a plot of `span` s up to now, whose caption has the highest and the last values, as `show` does them."""
    known = [value for line in lines for value in line.values if value is not None]
    top = max(known, default=0.0)
    paths = [path(line.values, top, _HEIGHT) for line in lines]
    last = ", ".join(f"{line.name} {show(line.values[-1])}".strip() for line in lines)
    legend = " (the second is dashed)" if len(lines) > 1 else ""
    caption = f"now {last}; highest {show(top)}" if known else "no samples yet"
    svg = _svg(paths, max(len(line.values) for line in lines), _HEIGHT, f"{title}: {caption}")
    axis = tag("p", tag("span", f"{span / 60:.0f} min ago"), tag("span", "now"), class_="axis")
    head = tag("figcaption", tag("strong", title), f" {caption}{legend if known else ''}")
    return Row(row_id, tag("figure", head, svg, axis, id=row_id))


def path(values: Sequence[float | None], top: float, height: int) -> str:
    """Return the `d` of a path from left to right, one unit for each sample, `top` at the upper edge.

    A sample between two gaps is a dot.
    """
    scale = (height - 2) / top if top > 0 else 0.0
    parts: list[str] = []
    level: int | None = None
    flat = 0
    for at, value in enumerate(values):
        if value is None:
            parts += [f"h{flat}"] if flat else []
            level, flat = None, 0
            continue
        new = height - 1 - round(value * scale)
        if level is None:
            # Without a length, a line with round ends is a dot.
            parts.append(f"M{at} {new}h0")
        elif new == level:
            flat += 1
            continue
        else:
            parts += [f"h{flat}"] if flat else []
            parts.append(f"l1 {new - level}" if new > level else f"l1{new - level}")
            flat = 0
        level = new
    return "".join([*parts, f"h{flat}"] if flat else parts)


def _svg(paths: Sequence[str], width: int, height: int, label: str) -> Html:
    lines = [tag("path", d=path, class_="second" if number else None) for number, path in enumerate(paths)]
    box = f"0 0 {width} {height}"
    return tag("svg", *lines, viewBox=box, preserveAspectRatio="none", role="img", aria_label=label)
