from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from ctrlhost.status.pages.plots import Line, axis_end, figure, path, sparkline
from ctrlhost.status.pages.text import rate

HEIGHT = 100


def points(drawn: str) -> list[list[tuple[int, int]]]:
    """Return the lines of a path as lists of points, as a browser draws them."""
    lines: list[list[tuple[int, int]]] = []
    for command, numbers in re.findall(r"([Mlh])([^Mlh]*)", drawn):
        values = [int(number) for number in re.findall(r"-?\d+", numbers)]
        if command == "M":
            lines.append([(values[0], values[1])])
            continue
        x, y = lines[-1][-1]
        if command == "l":
            lines[-1].append((x + values[0], y + values[1]))
        else:
            lines[-1] += [(x + step, y) for step in range(1, values[0] + 1)]
    return lines


@pytest.mark.behaviour("operations/OP68")
@pytest.mark.parametrize(
    "values",
    [
        [None, None, 1.0, 2.0, None, 3.0, None, 0.0, 0.0, 4.0],
        [4.0],
        [None],
        [0.0, 0.0, 0.0],
        [1.0, 1.0, None, None, 1.0, 1.0],
        [float(number % 7) for number in range(720)],
    ],
)
def test_a_line_has_each_sample_and_gaps_are_not_joined(values: Sequence[float | None]) -> None:
    top = max((value for value in values if value is not None), default=0.0)
    drawn = points(path(values, top, HEIGHT))
    by_x = {x: y for line in drawn for x, y in line}
    expected = {at: value for at, value in enumerate(values) if value is not None}
    assert by_x.keys() == expected.keys()
    for at, value in expected.items():
        assert by_x[at] == HEIGHT - 1 - round(value * (HEIGHT - 2) / top if top else 0)
    starts = [at for at in expected if at - 1 not in expected]
    assert [line[0][0] for line in drawn] == starts
    assert all(1 <= y <= HEIGHT - 1 for y in by_x.values())


@pytest.mark.behaviour("operations/OP68")
def test_a_plot_says_what_it_shows_and_is_empty_without_samples() -> None:
    series = [None] * 718 + [2.0, 1.0]
    html = figure("plot", "Runs per second", [Line("", series)], rate, 5).html
    assert 'viewBox="0 0 1 100"' in html
    assert 'aria-label="Runs per second: now 1.0"' in html
    assert 'd="M0 1h0l1 49"' in html
    assert 'data-values="2.0|1.0" data-period="5"' in html
    assert "5 s ago" in html
    empty = figure("plot", "Runs per second", [Line("", [None] * 720)], rate, 5).html
    assert "no samples yet" in empty
    assert "<svg" not in empty
    two = figure("plot", "Duration", [Line("p50", [1.0]), Line("p99", [2.0])], rate, 5).html
    assert "now p50 1.0, p99 2.0 (dashed)" in two
    assert two.count("<path") == 3
    assert two.count('class="second"') == 1
    assert sparkline([None, None]) == ""
    assert sparkline([0.0, None, 0.0]) == ""
    assert 'd="M1 1h0"' in sparkline([None, 3.0])


@pytest.mark.behaviour("oncall/OC3")
def test_a_burst_at_the_start_does_not_press_the_rest_flat() -> None:
    values = [900.0, 400.0, *(2.0 + number % 3 for number in range(100))]
    html = figure("plot", "Runs per second", [Line("", values)], rate, 5).html
    assert [part.partition("<")[0] for part in html.split("<span>")[1:4]] == ["4.0", "2.0", "0.0"]
    assert "now 2.0; highest 900.0, above the plot" in html
    assert "8.4 min ago" in html
    assert 'data-values="900.0|400.0|2.0|3.0|4.0|' in html
    # What is above the axis is at its edge, the others have their heights.
    assert points(html.split(' d="')[2].partition('"')[0])[0][:4] == [(0, 1), (1, 1), (2, 50), (3, 25)]


@pytest.mark.behaviour("oncall/OC3")
@pytest.mark.parametrize(
    ("values", "end"),
    [([], 1.0), ([0.0, 0.0], 1.0), ([0.3], 0.3), ([7.0], 8.0), ([11.0, 12.0], 15.0), ([99.0, 100.0], 100.0),
     ([*[1.0] * 99, 2.5], 3.0), ([*[1.0] * 99, 1000.0], 1.0), ([*[0.0] * 99, 5.0], 5.0)],
)  # fmt: skip
def test_the_axis_ends_at_a_round_number(values: list[float], end: float) -> None:
    assert axis_end(values) == pytest.approx(end)
