"""Plots as lines of SVG. Samples that are missing leave a gap in the line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.server.html import Html, tag
from ctrlhost.server.page import Row
from ctrlhost.status.amounts import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The height of a plot in units of its own; it is stretched to the room that it has.
_HEIGHT = 100
_SPARK_HEIGHT = 10
#: The part of the samples that the y axis is for, and how far a sample is above them that is left out of it.
_USUAL, _FAR = 0.95, 3.0
#: The upper ends of an axis, in powers of ten.
_ENDS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


class Line(NamedTuple):
    """One line of a plot."""

    name: str
    values: Sequence[float | None]


def sparkline(values: Sequence[float | None]) -> Html:
    """Return a small plot of what the row says in numbers; empty without samples above 0."""
    known = [value for value in values if value is not None]
    if not any(known):
        return Html("")
    line = path(values, max(known), _SPARK_HEIGHT)
    box = f"0 0 {len(values)} {_SPARK_HEIGHT}"
    return Html(f'<svg class="spark" viewBox="{box}" aria-hidden="true"><path d="{line}"/></svg>')


def figure(row_id: str, title: str, lines: Sequence[Line], show: Callable[[float | None], str], period: float) -> Row:
    """Return a plot from the first sample up to now, one each `period` s, with a y axis from 0.

    The caption has the last values, as `show` does them, and the highest if it is far above the others: the axis ends
    below it then. An open page shows the values at the pointer.
    """
    first = min((at for line in lines for at, value in enumerate(line.values) if value is not None), default=0)
    shown = [Line(line.name, line.values[first:]) for line in lines]
    known = [value for line in shown for value in line.values if value is not None]
    top, highest = axis_end(known), max(known, default=0.0)
    width = max(len(line.values) for line in shown)
    last = ", ".join(f"{line.name} {show(line.values[-1])}".strip() for line in shown)
    legend = " (dashed)" if len(lines) > 1 else ""
    above = f"; highest {show(highest)}, above the plot" if highest > top else ""
    caption = f"now {last}{legend}{above}" if known else "no samples yet"
    head = tag("figcaption", tag("strong", title), f" {caption}")
    upper, middle, zero = (show(top * part) for part in (1.0, 0.5, 0.0))
    # Of one key at most, there is no half.
    marks = (upper, "" if middle in (upper, zero) else middle, zero)
    scale = tag("div", *(tag("span", mark) for mark in marks), class_="y", aria_hidden="true")
    values = ";".join("|".join("" if value is None else show(value) for value in line.values) for line in shown)
    paths = [path(line.values, top, _HEIGHT) for line in shown]
    svg = _svg(paths, width, f"{title}: {caption}", data_values=values, data_period=f"{period:g}")
    began = f"{seconds((width - 1) * period)} ago" if width > 1 else ""
    axis = tag("p", tag("span", began), tag("output", ""), tag("span", "now"), class_="axis")
    plot = tag("div", scale, svg, class_="plot") if known else ""
    return Row(row_id, tag("figure", head, plot, axis if known else "", id=row_id))


def axis_end(known: Sequence[float]) -> float:
    """Return the upper end of the y axis: a round number above the usual values, and above the highest if that is near.

    A burst at the start must not press the rest of an hour flat.
    """
    if not known or max(known) <= 0:
        return 1.0
    ordered = sorted(known)
    usual, highest = ordered[int(_USUAL * (len(ordered) - 1))], ordered[-1]
    end = usual if 0 < usual * _FAR < highest else highest
    power = 10.0 ** math.floor(math.log10(end))
    return next((part * power for part in _ENDS if part * power >= end), 10.0 * power)


def path(values: Sequence[float | None], top: float, height: int) -> str:
    """Return the `d` of a path from left to right, one unit for each sample, `top` at the upper edge.

    A sample above the top is at the edge, one between two gaps is a dot.
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
        new = height - 1 - round(min(value, top) * scale)
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


def _svg(paths: Sequence[str], width: int, label: str, **data: object) -> Html:
    middle = tag("path", d=f"M0 {_HEIGHT // 2}H{width - 1}", data_decoration=True, class_="grid")
    lines = [tag("path", d=line, class_="second" if number else None) for number, line in enumerate(paths)]
    box = f"0 0 {max(width - 1, 1)} {_HEIGHT}"
    return tag("svg", middle, *lines, viewBox=box, preserveAspectRatio="none", role="img", aria_label=label, **data)
