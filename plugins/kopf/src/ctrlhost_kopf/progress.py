"""The progress of the handlers of one object: what is stored between two passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ctrlhost_kopf.execution import Outcome
    from ctrlhost_kopf.registry import Handler
    from ctrlhost_kopf.storages import ProgressRecord, ProgressStorage


@dataclass(frozen=True)
class HandlerState:
    """The progress of one handler; `active` is false for one that the present cause does not call."""

    #: Returns the time in seconds since the epoch.
    clock: Callable[[], float]
    started: datetime
    active: bool = True
    stopped: datetime | None = None
    delayed: datetime | None = None
    purpose: str | None = None
    retries: int = 0
    success: bool = False
    failure: bool = False
    message: str | None = None
    subrefs: tuple[str, ...] = ()
    #: The record that it was read from.
    origin: Mapping[str, Any] | None = None

    @classmethod
    def fresh(cls, clock: Callable[[], float], purpose: str | None = None) -> HandlerState:
        """Return the state before the first attempt; `clock` returns seconds since the epoch."""
        return cls(clock, _moment(clock()), purpose=purpose)

    @classmethod
    def of_record(cls, record: ProgressRecord, clock: Callable[[], float]) -> HandlerState:
        """Return the state that is stored."""
        return cls(
            clock,
            _parsed(record.get("started")) or _moment(clock()),
            active=False,
            stopped=_parsed(record.get("stopped")),
            delayed=_parsed(record.get("delayed")),
            purpose=record.get("purpose") or None,
            retries=record.get("retries") or 0,
            success=record.get("success") or False,
            failure=record.get("failure") or False,
            message=record.get("message"),
            subrefs=tuple(record.get("subrefs") or ()),
            origin=record,
        )

    @property
    def finished(self) -> bool:
        """Whether the handler is not called again for this cause."""
        return self.success or self.failure

    @property
    def awakened(self) -> bool:
        """Whether the handler can be called now."""
        return not self.finished and (self.delayed is None or self.delayed <= _moment(self.clock()))

    @property
    def runtime(self) -> timedelta:
        """The time since the first attempt."""
        return _moment(self.clock()) - self.started

    def with_outcome(self, outcome: Outcome) -> HandlerState:
        """Return the state after an attempt."""
        now = _moment(self.clock())
        failed = outcome.exception is not None
        return replace(
            self,
            stopped=self.stopped or (now if outcome.final else None),
            delayed=None if outcome.delay is None else now + timedelta(seconds=outcome.delay),
            success=outcome.final and not failed,
            failure=outcome.final and failed,
            retries=self.retries + 1,
            message=str(outcome.exception) if failed else None,
            subrefs=tuple(sorted({*self.subrefs, *outcome.subrefs})),
        )

    def record(self) -> ProgressRecord:
        """Return what is stored."""
        return {
            "started": self.started.isoformat(timespec="microseconds"),
            "stopped": self.stopped.isoformat(timespec="microseconds") if self.stopped else None,
            "delayed": self.delayed.isoformat(timespec="microseconds") if self.delayed else None,
            "purpose": None if self.purpose is None else str(self.purpose),
            "retries": self.retries,
            "success": self.success,
            "failure": self.failure,
            "message": self.message,
            "subrefs": list(self.subrefs) or None,
        }


class State(dict[str, HandlerState]):
    """The progress of the handlers of one object, by their ids. `clock` returns seconds since the epoch."""

    def __init__(
        self, states: Mapping[str, HandlerState], clock: Callable[[], float], purpose: str | None = None
    ) -> None:
        super().__init__(states)
        self.clock, self.purpose = clock, purpose

    @classmethod
    def of_storage(
        cls, body: Any, storage: ProgressStorage, handlers: Iterable[Handler], clock: Callable[[], float]
    ) -> State:
        """Return the stored states."""
        records = {handler.id: storage.fetch(key=handler.id, body=body) for handler in handlers}
        stored = {key: HandlerState.of_record(record, clock) for key, record in records.items() if record is not None}
        return cls(stored, clock)

    def for_handlers(self, purpose: str | None, handlers: Iterable[Handler]) -> State:
        """Return the state in which these handlers are called."""
        states = dict(self)
        for handler in handlers:
            known = states.get(handler.id)
            states[handler.id] = (
                HandlerState.fresh(self.clock, purpose) if known is None else replace(known, active=True)
            )
        return State(states, self.clock, purpose)

    def repurposed(self, handlers: Iterable[Handler]) -> State:
        """Return the state in which these handlers have the purpose of this one."""
        changed = {handler.id: replace(self[handler.id], purpose=self.purpose) for handler in handlers}
        return State({**self, **changed}, self.clock, self.purpose)

    def with_outcomes(self, outcomes: Mapping[str, Outcome]) -> State:
        """Return the state after attempts."""
        changed = {key: self[key].with_outcome(outcome) for key, outcome in outcomes.items()}
        return State({**self, **changed}, self.clock, self.purpose)

    def without_successes(self) -> State:
        """Return the state of the handlers that have failed or are not finished."""
        return State({key: state for key, state in self.items() if not state.success}, self.clock)

    def store(self, body: Any, patch: Any, storage: ProgressStorage) -> None:
        """Add the changed states to the patch."""
        for key, state in self.items():
            record = state.record()
            if {name: value for name, value in record.items() if value is not None} != state.origin:
                storage.store(key=key, record=record, body=body, patch=patch)
        storage.flush()

    def purge(self, body: Any, patch: Any, storage: ProgressStorage, handlers: Iterable[Handler]) -> None:
        """Remove the states of these handlers, and of all others and of subhandlers that are known."""
        subrefs = [subref for state in self.values() for subref in state.subrefs]
        for key in dict.fromkeys([*(handler.id for handler in handlers), *self, *subrefs]):
            storage.purge(key=key, body=body, patch=patch)
        storage.flush()

    @property
    def superseded(self) -> list[str]:
        """Other purposes for which handlers have been called and are not finished."""
        purposes = {state.purpose for state in self.values()}
        return sorted(purpose for purpose in purposes if purpose is not None and purpose != self.purpose)

    @property
    def done(self) -> bool:
        """Whether all handlers of the present cause are finished."""
        return all(state.finished for state in self.values() if state.active)

    @property
    def delays(self) -> list[float]:
        """The seconds until each unfinished handler can be called."""
        now = _moment(self.clock())
        return [
            max(0.0, (state.delayed - now).total_seconds()) if state.delayed else 0.0
            for state in self.values()
            if state.active and not state.finished
        ]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _parsed(text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
