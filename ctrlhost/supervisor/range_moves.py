"""The ranges of keys that came to this replica, or left it, until a plugin and its controllers have been told."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.controller.error_text import line_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.controller.controller import Controller
    from ctrlhost.coordination.ownership import Span

log = logging.getLogger("ctrlhost.host")


class Move(NamedTuple):
    """Ranges that opened here, and that other replicas have now."""

    opened: Sequence[Span]
    lost: Sequence[Span]

    def pass_on(self, controllers: Sequence[Controller], name: str) -> None:
        """Make controllers forget what was lost and queue what has opened; on a thread, since predicates may hang."""
        threading.Thread(target=self._pass_on, args=(controllers,), name=name, daemon=True).start()

    def _pass_on(self, controllers: Sequence[Controller]) -> None:
        for controller in controllers:
            try:
                controller.lost(self.lost)
                controller.opened(self.opened)
            except Exception as error:  # noqa: BLE001 - the other controllers must be told
                log.error("controller %s: cannot queue the objects of its ranges: %s", controller.name, line_of(error))


class RangeMoves:
    """The moves that a plugin has not been told of. `add` may be called from any thread."""

    def __init__(self) -> None:
        """Start without any."""
        self._moves: deque[Move] = deque()

    def add(self, opened: Sequence[Span], lost: Sequence[Span]) -> None:
        """Add a move; one without ranges only says that there were some before."""
        self._moves.append(Move(opened, lost))

    def take(self) -> Move | None:
        """Return all moves since the last call as one; None if there were none."""
        moves = [self._moves.popleft() for _ in range(len(self._moves))]
        if not moves:
            return None
        opened = [span for move in moves for span in move.opened]
        return Move(opened, [span for move in moves for span in move.lost])
