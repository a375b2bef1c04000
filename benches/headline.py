"""The figures of the README: three lines made from the table in docs/benchmarks.md."""

from __future__ import annotations

from typing import NamedTuple

BEGIN, END = "<!-- written by `make bench` -->\n", "<!-- end -->\n"


class Row(NamedTuple):
    """One row of the table of ratios."""

    ours: str
    ratio: str


def rows(page: str) -> dict[tuple[str, str, str], Row]:
    """Return the rows of the table by suite, what was measured, and peer."""
    found = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 6:
            suite, measured, ours, peer, _, ratio = cells
            found[suite, measured, peer] = Row(ours, ratio)
    return found


def headline(page: str) -> str:
    """Return the three lines for the page of benchmarks `page`; KeyError if it lacks one of their rows."""
    table = rows(page)
    pod, event, start = "memory per pod", "watch event to queued key", "start to 10,000 pods reconciled once"
    noop = table["host", "no-op reconcile, 4 workers", "controller-runtime"]
    return (
        f"- **One watch and one cache per resource, for all plugins.** A cached pod of 5 KB takes "
        f"{table['informer', pod, 'client-go'].ours}: {table['informer', pod, 'client-go'].ratio} of client-go, "
        f"{table['informer', pod, 'official-informer'].ratio} of the official client.\n"
        f"- **Python runs only when a reconcile is due.** A watch event is queued after "
        f"{table['informer', event, 'client-go'].ours}: {table['informer', event, 'client-go'].ratio} of client-go. "
        f"10,000 pods are reconciled in {table['host', start, 'kopf'].ratio} of kopf's time "
        f"({table['host', start, 'controller-runtime'].ratio} of controller-runtime's).\n"
        f"- **A plugin that fails is named, and the others keep running.** Sharing a host costs {noop.ours} for each "
        f"reconcile: {noop.ratio} of controller-runtime.\n"
    )


def with_headline(readme: str, page: str) -> str:
    """Return the README with its figures replaced by those of the page of benchmarks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + headline(page) + end + after
