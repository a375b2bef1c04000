"""The failures of a reflector: counted, logged once a minute while they stay the same, and passed on."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from ctrlhost.errors import ApiError, Unauthorized
from ctrlhost.reflector.steps import Call, Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.reflector.status import ReflectorStatus

log = logging.getLogger("ctrlhost.informers.reflector")

_LOG_INTERVAL = 60.0
"""Seconds after which the same failure is logged again."""


class Failures:
    """Reports the failures of one reflector. For use by its steps."""

    def __init__(
        self,
        kind: str,
        status: ReflectorStatus,
        clock: Clock,
        on_error: Callable[[Exception], None] | None,
        *,
        optional: bool,
    ) -> None:
        """Count in `status`, and call `on_error`; those of an `optional` reflector are not logged as warnings."""
        self._kind = kind
        self._status = status
        self._clock = clock
        self._on_error = on_error
        self._optional = optional
        #: The failure that was logged last, and when.
        self._logged: tuple[str, float] | None = None

    def report(self, verb: str, error: Exception) -> Steps[None]:
        """Report that the reflector cannot `list` or `watch`, once its status says why."""
        self._status.failed(type(error).__name__, str(error))
        self._log(verb, error)
        if self._on_error is not None:
            yield Call(partial(self._on_error, error))

    def _log(self, verb: str, error: Exception) -> None:
        now, text = self._clock.now(), str(error)
        if self._logged is not None and self._logged[0] == text and now - self._logged[1] < _LOG_INTERVAL:
            return
        self._logged = (text, now)
        expected = isinstance(error, ApiError) and error.status in (404, 410)
        level = logging.DEBUG if self._optional else logging.INFO if expected else logging.WARNING
        hint = " (credentials rejected)" if isinstance(error, Unauthorized) else ""
        log.log(level, "cannot %s %s%s: %s", verb, self._kind, hint, self._status.reason or text)
