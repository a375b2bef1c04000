"""Pages of the parts of a controller's queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from ctrlhost.controller.key_text import key_text
from ctrlhost.status.model import QueueItem, QueuePage
from ctrlhost.status.problem import StatusProblem
from ctrlhost.status.snapshot import next_run

if TYPE_CHECKING:
    from ctrlhost.controller.controller import Controller

PARTS = ("queued", "processing", "delayed", "failing")
#: The number of keys in a page by default, and at most.
LIMIT, MOST = 100, 1000
#: The error, place, reconcile and cause of a key that has none.
_NO_ERROR = ("", "", "", "")


def queue_page(controller: Controller, part: str, limit: str, after: str | None, cause: str = "") -> QueuePage:
    """Return the keys of a part after the cursor `after`; of failing ones those of a cause, if its id is given.

    StatusProblem for an invalid argument.
    """
    if part not in PARTS:
        raise StatusProblem(400, f"no part `{part}`", f"parts: {', '.join(PARTS)}")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 4 and 1 <= int(limit) <= MOST):
        raise StatusProblem(400, f"invalid limit `{limit}`", f"limit is a number from 1 to {MOST}")
    count = int(limit)
    if part == "failing":
        return _failing(controller, count, after, cause)
    try:
        page = controller.queue.page(cast("Literal['queued']", part), count, after)
    except ValueError:
        raise _cursor(after) from None
    return QueuePage([_item(part, key) for key in page.keys], page.next, page.total)


def _item(part: str, item: Any) -> QueueItem:
    key = key_text(item.key)
    if part == "queued":
        return QueueItem(key, item.priority, item.age, item.failures, None, *_NO_ERROR)
    if part == "processing":
        return QueueItem(key, item.again, item.running, item.failures, None, *_NO_ERROR)
    return QueueItem(key, item.priority, None, item.failures, item.due_in, *_NO_ERROR)


def _failing(controller: Controller, count: int, after: str | None, number: str) -> QueuePage:
    history = controller.history
    if after is not None and not (after.isascii() and after.isdigit()):
        raise _cursor(after)
    first = int(after[:9]) if after else 0
    keys = history.failing_keys(first, count + 1, number)
    cause = history.causes.find(number) if number else None
    total = cause.keys if cause is not None else 0 if number else len(history.failing)
    items = []
    for key in keys[:count]:
        failure = history.failure(key)
        failures = failure.failures if failure is not None else history.attempts.get(key, 0)
        retry = None if failure is not None and failure.terminal else next_run(controller, key)
        last = _NO_ERROR if failure is None else (failure.error, failure.place, failure.reconcile_id, failure.cause.id)
        items.append(QueueItem(key_text(key), None, None, failures, retry, *last))
    return QueuePage(items, str(first + count) if len(keys) > count else None, total)


def _cursor(after: str | None) -> StatusProblem:
    return StatusProblem(400, f"invalid cursor `{after}`", "`after` is the `next` of the page before")
