"""Causes and failing keys as commands show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.cli.amounts import duration, rate, since
from ctrlhost.cli.table import Column

if TYPE_CHECKING:
    from ctrlhost.cli.running_host import Answer

#: The columns of causes; their text comes last.
CAUSES = (
    Column("KEYS", right=True),
    Column("CONTROLLER"),
    Column("SINCE", right=True),
    Column("LAST", right=True, rank=1),
    Column("FAILURES/s", right=True, rank=0),
)
#: The columns of failing keys; the error comes last.
FAILING_KEYS = (
    Column("KEY"),
    Column("FAILURES", right=True),
    Column("NEXT RETRY", right=True, rank=1),
    Column("RECONCILE", rank=0),
)


def cause_cells(cause: Answer, now: str) -> list[Any]:
    """Return the cells of a cause; for how long it has been there is an age."""
    return [
        f"{cause['keys']:,}",
        cause["controller"],
        duration(since(cause["first"], now)),
        f"{duration(since(cause['last'], now))} ago",
        rate(cause["per_second"]),
    ]


def cause_text(cause: Answer) -> str:
    """Return what a cause is, and where: `ValueError at shop/orders.py:12: no price for #`."""
    place = f" at {cause['place']}" if cause["place"] else ""
    text = f": {cause['text']}" if cause["text"] else ""
    return f"{cause['type']}{place}{text}"


def key_cells(item: Answer) -> list[Any]:
    """Return the cells of a failing key of a queue."""
    return [item["key"], f"{item['failures']:,}", next_retry(item["due_seconds"]), item["reconcile_id"] or "-"]


def next_retry(seconds: float | None) -> str:
    """Return in how long a failing key is reconciled again; `given up` for None."""
    if seconds is None:
        return "given up"
    return "now" if seconds == 0 else duration(seconds)


def last_error(item: Answer) -> str:
    """Return the last error of a key with its place; `-` if the host does not say."""
    place = f" ({item['place']})" if item["place"] else ""
    return f"{item['error'] or '-'}{place}"
