"""A bar chart for each suite of a page of benchmarks: `python -m benches.plots` draws them again from the pages."""

from __future__ import annotations

from html import escape
from math import log10
from pathlib import Path

PAGES = Path(__file__).parent.parent / "docs"
LINE, LABELS, WIDTH = 22, 520, 800
#: The ratios at both ends of the scale. A bar ends there if its ratio lies beyond.
LEAST, MOST = 0.01, 10.0
STYLE = """<style>
text { font: 13px sans-serif; fill: #1f2937 } .less { fill: #0d9488 } .more { fill: #c2410c } line { stroke: #6b7280 }
@media (prefers-color-scheme: dark) { text { fill: #e5e7eb } }
</style>"""


def draw(page: str, folder: Path) -> list[Path]:
    """Write an SVG for each suite that has two or more ratios in the table of `page`; return the files."""
    suites: dict[str, list[tuple[str, float]]] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 6 and cells[5][:1].isdigit():
            suite, measured, _, peer, _, ratio = cells
            suites.setdefault(suite, []).append((f"{measured}, against {peer}", float(ratio)))
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for suite, bars in suites.items():
        if len(bars) > 1:
            drawn.append(path := folder / f"{suite.replace(' ', '-')}.svg")
            path.write_text(_chart(suite, bars), encoding="utf-8")
    return drawn


def _chart(title: str, bars: list[tuple[str, float]]) -> str:
    height = LINE * (len(bars) + 3)
    even = _place(1.0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        STYLE,
        f'<text x="0" y="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="{LABELS}" y="16">left of the line: ctrlhost costs less</text>',
    ]
    for number, (label, ratio) in enumerate(bars, start=2):
        top, end = LINE * (number - 1), _place(ratio)
        left, width, kind = min(even, end), abs(end - even), "less" if ratio <= 1 else "more"
        fit = f' textLength="{LABELS - 12}" lengthAdjust="spacingAndGlyphs"' if len(label) > 85 else ""
        lines += [
            f'<text x="0" y="{top + 16}"{fit}>{escape(label)}</text>',
            f'<rect class="{kind}" x="{left:.1f}" y="{top + 4}" width="{width:.1f}" height="{LINE - 8}"/>',
            f'<text x="{max(even, end) + 6:.1f}" y="{top + 16}">{ratio:g}</text>',
        ]
    lines += [f'<line x1="{even:.1f}" y1="{LINE}" x2="{even:.1f}" y2="{LINE * (len(bars) + 1)}"/>', "</svg>"]
    return "\n".join(lines) + "\n"


def _place(ratio: float) -> float:
    """Return where a ratio is on the scale, which is logarithmic."""
    part = log10(min(max(ratio, LEAST), MOST) / LEAST) / log10(MOST / LEAST)
    return LABELS + part * (WIDTH - LABELS - 50)


if __name__ == "__main__":
    for name in ("benchmarks.md", "benchmarks-scale.md"):
        draw((PAGES / name).read_text(encoding="utf-8"), PAGES / "plots")
