"""What every Ingress of ours should say, as the parts of the plugin share it."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost_ingress_status.state import Known


class Verdict(Enum):
    """What is to be done about one Ingress."""

    #: It is not ours, or nothing is known that it should say.
    LEAVE = auto()
    #: It says what it should.
    RIGHT = auto()
    WRITE = auto()
    CLEAR = auto()


class Desired:
    """The value of the moment. Each attribute is replaced as a whole, so that any thread may read it."""

    def __init__(self, ours: frozenset[str]) -> None:
        """Know the classes and no address."""
        self.ours = ours
        self.known: Known | None = None
        #: While statuses are cleared, the mark of the list that is; empty otherwise.
        self.clearing = ""
        #: Between the hooks that say so; workers and events are heard only then.
        self.elected = False

    def verdict(self, class_name: str, mark: str, known: Known | None) -> Verdict:
        """Judge an Ingress by its class and the mark of the addresses that it says, against what is known.

        `known` is given, so that who acts on the verdict acts by the same address.
        """
        if known is None or class_name not in self.ours:
            return Verdict.LEAVE
        if known.entries:
            return Verdict.RIGHT if mark == known.mark else Verdict.WRITE
        return Verdict.CLEAR if self.clearing and mark == self.clearing else Verdict.LEAVE
