"""What a refused or failed write means, and how long to wait after it."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ctrlhost
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter

if TYPE_CHECKING:
    from ctrlhost import Request

#: Waits after the first, second and third conflict in a row, in seconds; after the fourth the object is backed off.
CONFLICT_WAITS = (0.01, 0.05, 0.25)
_SCATTER = 0.1
_BASE, _LONGEST = 0.005, 60.0
_FORBIDDEN_BASE, _FORBIDDEN_LONGEST = 1.0, 300.0
_QUIET = 60.0


def reason_of(error: Exception) -> str:
    """Give the word for an error in metrics and rules."""
    if not isinstance(error, ctrlhost.ApiError):
        return "connection"
    if isinstance(error, ctrlhost.NotFound):
        return "gone"
    if isinstance(error, (ctrlhost.Invalid, ctrlhost.Conflict)) and _is_about_uid(error):
        return "replaced"
    words = {409: "conflict", 422: "invalid", 403: "forbidden", 429: "throttled", 503: "throttled"}
    return words.get(error.status, "server")


def _is_about_uid(error: ctrlhost.ApiError) -> bool:
    """Say whether the server refused because the name belongs to another object by now."""
    fields = [str(cause.get("field", "")) for cause in error.causes]
    return "metadata.uid" in fields or "metadata.uid" in str(error) or "UID in precondition" in str(error)


@dataclass(slots=True)
class Attempt:
    """An update of one object that is not over."""

    started: float
    conflicts: int = 0


class Failures:
    """What is remembered of objects whose update failed; nothing of the others. Safe to use from any thread.

    Only the worker of an object asks for it, so a lock is needed for the log lines alone.
    """

    def __init__(self) -> None:
        """Remember nothing."""
        self._back_off = ItemExponentialFailureRateLimiter(_BASE, _LONGEST)
        self._forbidden = ItemExponentialFailureRateLimiter(_FORBIDDEN_BASE, _FORBIDDEN_LONGEST)
        self._open: dict[Request, Attempt] = {}
        #: What the server will refuse again: the address by its number, for the object in this version.
        self._refused: dict[Request, tuple[int, str]] = {}
        self._logged: dict[str, float] = {}
        self._lock = threading.Lock()

    def attempt(self, key: Request, now: float) -> tuple[Attempt, bool]:
        """Give the object's open update, or a new one, and whether it is new."""
        known = self._open.get(key)
        if known is not None:
            return known, False
        attempt = self._open[key] = Attempt(now)
        return attempt, True

    def opened(self, key: Request) -> Attempt | None:
        """Give the object's open update, if it has one."""
        return self._open.get(key)

    def close(self, key: Request) -> None:
        """End the object's update; its back-off stays."""
        self._open.pop(key, None)

    def forget(self, key: Request) -> None:
        """Drop all that is remembered of an object that is well, gone, or not ours."""
        self._open.pop(key, None)
        self._refused.pop(key, None)
        self._back_off.forget(key)
        self._forbidden.forget(key)

    def refuse(self, key: Request, number: int, version: str) -> None:
        """Remember that the server refuses this address for good, on this version of the object."""
        self._refused[key] = number, version

    def refused(self, key: Request, number: int, version: str) -> bool:
        """Say whether trying again is in vain."""
        return self._refused.get(key) == (number, version)

    def conflicted(self, attempt: Attempt) -> float | None:
        """Give the wait before the next try; None when there were enough of them."""
        attempt.conflicts += 1
        if attempt.conflicts > len(CONFLICT_WAITS):
            return None
        scatter = 1.0 + random.random() * _SCATTER  # noqa: S311 - only keeps tries of several objects apart
        return CONFLICT_WAITS[attempt.conflicts - 1] * scatter

    def wait(self, key: Request, reason: str, error: Exception) -> float:
        """Give the seconds until the object's turn comes again."""
        asked = error.retry_after if isinstance(error, ctrlhost.ApiError) else None
        if asked:
            return asked
        return (self._forbidden if reason == "forbidden" else self._back_off).when(key)

    def may_log(self, reason: str, now: float) -> bool:
        """Say whether it is a minute since the last line about this."""
        with self._lock:
            last = self._logged.get(reason)
            if last is not None and now - last < _QUIET:
                return False
            self._logged[reason] = now
            return True
