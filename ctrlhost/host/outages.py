"""One error for all caches that cannot be read: an expired token, or a server that does not answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.informers import InformerFactory
    from ctrlhost.reflector.status import InformerStatus

log = logging.getLogger("ctrlhost.host")

#: Seconds that a cache may be without a watch before the error, and until the error is repeated.
AFTER, AGAIN = 15.0, 300.0
_REJECTED = "give this user new credentials; a token file and an exec plugin are read again, a token in the file is not"
_UNREACHABLE = "check the address, the network and the server"


class Outages:
    """Logs caches that have not been current for a while. For use by one thread."""

    def __init__(
        self, factory: Callable[[], InformerFactory | None], client: Callable[[], Client | None], clock: Clock
    ) -> None:
        """Prepare; both are read at each check."""
        self._factory, self._client, self._clock = factory, client, clock
        #: When the error is due again; None while all caches are current.
        self._due: float | None = None

    def check(self) -> None:
        """Log the error if it is due."""
        factory, client, now = self._factory(), self._client(), self._clock.now()
        if factory is None or client is None:
            return
        lost = [status for status in (informer.status() for informer in factory.informers()) if _is_lost(status)]
        if not lost:
            if self._due is not None:
                log.info("the caches are current again")
            self._due = None
        elif self._due is None or now >= self._due:
            self._due = now + AGAIN
            reason = lost[0].reason
            hint = _REJECTED if "401" in reason or "Unauthorized" in reason else _UNREACHABLE
            log.error(
                "cannot read the API server for %.0f s, %d caches are not current: %s (%s; hint: %s)",
                max(status.state_age or 0.0 for status in lost),
                len(lost),
                reason,
                client.transport.account() or client.transport.url,
                hint,
            )


def _is_lost(status: InformerStatus) -> bool:
    return status.state in ("listing", "reconnecting") and bool(status.reason) and (status.state_age or 0.0) >= AFTER
