"""Waiting until a host under test has no work left and everything went well."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ctrlhost.controller.error_text import line_of
from ctrlhost.controller.key_text import key_text
from ctrlhost.controller.places import place_of
from ctrlhost.informers.callback_metrics import handler_name
from ctrlhost.status.snapshot import next_run
from ctrlhost.supervisor.held import held_deletions
from ctrlhost.testing.idle import CHANGED
from ctrlhost.testing.record import who_writes
from ctrlhost.workqueue import DelayedKey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ctrlhost.controller.controller import Controller
    from ctrlhost.duration import Duration
    from ctrlhost.host.host import Host
    from ctrlhost.testing.idle import PendingWork
    from ctrlhost.testing.record import RequestRecord

#: What `settle` lets pass on demand.
Allowed = Literal["waiting", "retrying", "terminal"]
_RETRYING: tuple[Allowed, ...] = ("retrying",)
#: With a clock that runs by itself, retries are awaited up to so many failures of a key in a row.
_FAILURES = 8
#: A state of a plugin must last for so many looks, about a second: its threads notice after each other what has
#: changed. Not for a time, which also passes while the process is stopped.
_LASTS = 50
_HINTS = {
    "waiting": "apply what it waits for before the host starts, or grant the right; "
    '`allow=("waiting",)` if the test expects it',
    "retrying": '`allow=("retrying",)` if the test expects the failure',
    "terminal": '`allow=("terminal",)` if the test expects it',
    "moving": "a reconciler should write only what differs from what it has read",
}


_THROUGH = '`settle(through="1m")` goes on to the retries'
#: Errors that no retry mends.
_MISTAKES = frozenset(
    {"AttributeError", "NameError", "PluginError", "TypeError", "UnboundLocalError", "UndeclaredRead"}
)


class NotSettled(AssertionError):
    """The host did not come to rest, or something failed; the message says what, and how to find out more."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """Something that went wrong or hangs."""

    kind: Literal["plugin", "waiting", "retrying", "terminal", "callback", "moving"]
    text: str
    #: Whether time alone may mend it.
    may_pass: bool = False
    #: Whether a retry may mend it.
    retry_helps: bool = False


class Settling:
    """Waits for one host. For use by one thread."""

    def __init__(self, host: Host, work: PendingWork, record: RequestRecord) -> None:
        """Look at `host` and its `work`; `record` has its writes."""
        self._host = host
        self._work = work
        self._record = record
        self._manual = hasattr(host.clock, "advance")
        #: The errors of callbacks that were reported, by informer, use and name.
        self._reported: dict[tuple[str, str, str], int] = {}
        self.errors = CallbackErrors()

    def settle(self, timeout: Duration, through: Duration | None, allow: Collection[Allowed]) -> None:
        """See `HostUnderTest.settle`."""
        _check(allow)
        deadline = time.monotonic() + timeout
        if through is not None:
            self._through(through, deadline, allow)
        self._settle(deadline, allow)

    def advance(self, seconds: float, timeout: Duration) -> None:
        """See `HostUnderTest.advance`."""
        self._step(seconds)
        self._settle(time.monotonic() + timeout, _RETRYING)

    def _through(self, seconds: float, deadline: float, allow: Collection[Allowed]) -> None:
        end = self._host.clock.now() + seconds
        self._step(0.0)
        while True:
            self._settle(deadline, {*allow, *_RETRYING}, end)
            wait = self._next_due()
            if wait is None or self._host.clock.now() + wait > end:
                return
            # Rounding must not make it stand still just before a due time.
            self._step(max(wait, 1e-6))

    def _step(self, seconds: float) -> None:
        if not self._manual:
            raise RuntimeError(
                "the host's clock runs by itself; start it with `ctrlhost_host(…, clock=manual_clock)` to move its time"
            )
        self._host.clock.advance(seconds)  # type: ignore[attr-defined]

    def _next_due(self) -> float | None:
        """Return the seconds until the next key, timer or task is due; None without one."""
        queues = [controller.queue for controller in self._work.controllers() if controller.working]
        due = [key.due_in for queue in queues for key in queue.page("delayed", 1).keys if isinstance(key, DelayedKey)]
        due += [max(at - self._host.clock.now(), 0.0) for _, at in self._work.due()]
        return min(due, default=None)

    def _settle(self, deadline: float, allow: Collection[Allowed], end: float = -math.inf) -> None:
        """Wait; while an informer is in its back-off, move the clock to the next due time, but not beyond `end`."""
        pause, looks = 0.001, 0
        while True:
            before = self._work.stamp()
            # Tasks first: what one of them writes is pending work afterwards.
            busy = self._work.overdue() or self._work.elections() or self._work.shards() or self._work.lines()
            stalled = bool(busy) and self._work.backing_off()
            if not busy:
                busy = self._work.waking()
                stalled = bool(busy)
            now = time.monotonic()
            problems = (
                []
                if busy
                else [problem for problem in self._problems(deadline - now, end) if problem.kind not in allow]
            )
            if not (busy or problems):
                if self._work.stamp() == before:
                    return
                # A retry may have repaired what failed, and its writes may be on their way.
                busy = [CHANGED]
            if stalled:
                self._work.wake()
            wait = self._next_due() if stalled else None
            if wait is not None and self._host.clock.now() + wait <= end:
                self._step(max(wait, 1e-6))
            looks = 0 if busy else looks + 1
            if not busy and looks >= _lasting(problems) and any(not problem.may_pass for problem in problems):
                raise NotSettled(self._text("not settled", problems))
            if now >= deadline:
                moving = [_Problem("moving", line) for line in busy]
                raise NotSettled(self._text("the host did not come to rest in time", [*moving, *self._problems(0)]))
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def _text(self, head: str, problems: list[_Problem]) -> str:
        moving = any(problem.kind == "moving" for problem in problems)
        writers = list(who_writes(self._record.writes())) if moving else []
        for problem in problems:
            if problem.kind == "callback":
                self._reported = self._counts()
        hints = [_HINTS[kind] for kind in _HINTS if any(problem.kind == kind for problem in problems)]
        if self._manual and any(problem.retry_helps for problem in problems):
            hints.insert(0, _THROUGH)
        if moving and not writers:
            hints.remove(_HINTS["moving"])
        lines = [f"  {problem.text}" for problem in problems] + [f"  {line}" for line in writers]
        return "\n".join([f"{head}:", *lines, *(f"hint: {hint}" for hint in hints)])

    def _problems(self, left: float, end: float = -math.inf) -> list[_Problem]:
        """Return what went wrong; retries within the seconds that are `left` may mend it, or restarts until `end`."""
        controllers = self._work.controllers()
        return [
            *self._of_plugins(end),
            *(problem for controller in controllers for problem in self._of_controller(controller, left)),
            *self._of_callbacks(),
        ]

    def _of_plugins(self, end: float) -> Iterator[_Problem]:
        for plugin in self._host.plugins:
            yield from (_Problem("terminal", line) for line in held_deletions(plugin))
            restart = plugin.restarts_in()
            if plugin.state not in ("running", "disabled") and (
                restart is None or self._host.clock.now() + restart > end
            ):
                kind: Literal["waiting", "plugin"] = "waiting" if plugin.state == "waiting" else "plugin"
                text = f"plugin {plugin.name} is {plugin.state}: {plugin.reason}".rstrip(": ")
                yield _Problem(kind, text, retry_helps=restart is not None)
            for task in plugin.context.tasks if plugin.context is not None else ():
                if task.error is not None:
                    text = f"task {task.name} failed, failure {task.failures}: {task.error}"
                    yield _Problem(
                        "retrying", text, may_pass=not self._manual and task.failures < _FAILURES, retry_helps=True
                    )

    def _of_controller(self, controller: Controller, left: float) -> Iterator[_Problem]:
        if why := controller.waiting():
            yield _Problem("waiting", f"controller {controller.name} waits: {why}")
        for attachment in controller.attachments:
            if attachment.error:
                yield _Problem(
                    "callback", f"controller {controller.name}: the requests of its timer failed: {attachment.error}"
                )
        counts = controller.counts
        if counts is not None and counts.hot_keys:
            yield _Problem("moving", f"controller {controller.name}: {counts.hot_keys} keys never come to rest")
        for key, failure in controller.history.failures():
            where = f" ({failure.place})" if failure.place else ""
            what = f"controller {controller.name}: key {key_text(key)} failed"
            if failure.terminal:
                yield _Problem("terminal", f"{what} for good: {failure.error}{where}")
                continue
            retry = next_run(controller, key)
            when = "no retry is due" if retry is None else f"next try in {retry:.3g} s"
            text = f"{what}, attempt {failure.failures}, {when}: {failure.error}{where}"
            soon = retry is not None and retry <= left and failure.failures < _FAILURES
            yield _Problem(
                "retrying", text, may_pass=soon and not self._manual, retry_helps=failure.kind not in _MISTAKES
            )

    def _of_callbacks(self) -> Iterator[_Problem]:
        for (informer, use, name), count in self._counts().items():
            # Fewer than before are those of a plugin that has restarted.
            if count != self._reported.get((informer, use, name), 0):
                error = self.errors.of(use, name) or "the log has the error"
                yield _Problem("callback", f"{use} {name} for {informer} raised: {error}")

    def _counts(self) -> dict[tuple[str, str, str], int]:
        counts = Counter[tuple[str, str, str]]()
        for informer in self._work.informers():
            for metric in informer.callback_metrics:
                if metric.counts.errors:
                    # Functions of one name, such as two lambdas, count together.
                    counts[informer.key, metric.use, metric.name] += metric.counts.errors
            transform = informer.scope.transform
            if transform and (errors := sum(part.engine.stats()["transform_errors"] for part in informer.parts)):
                counts[informer.key, "transform", handler_name(transform)] = errors
        return counts


class CallbackErrors(logging.Handler):
    """Keeps the last error that each function raised, since the host only counts and logs those of callbacks."""

    def __init__(self) -> None:
        """Prepare; a logger feeds it."""
        super().__init__(logging.ERROR)
        #: By the module and name of the function.
        self._errors: dict[str, str] = {}
        #: The lines of errors without a traceback, as those are that the core passes on.
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error of a log line."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        trace, place = error.__traceback__, place_of(error.__traceback__)
        text = f"{line_of(error)} ({place})" if place else line_of(error)
        if trace is None:
            self._lines.append(f"{text}; {record.getMessage()}")
        while trace is not None:
            frame = trace.tb_frame
            self._errors[f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"] = text
            trace = trace.tb_next

    def of(self, use: str, function: str) -> str:
        """Return the last error of a function, by its module and name; empty if it is not known."""
        lines = (line for line in reversed(self._lines) if use in line)
        return self._errors.get(function) or next(lines, "")


def _check(allow: Collection[str]) -> None:
    known = get_args(Allowed)
    if isinstance(allow, str) or not set(allow) <= set(known):
        raise ValueError(f"allow={allow!r}: must be a tuple of {', '.join(known)}")


def _lasting(problems: list[_Problem]) -> int:
    """Return the number of looks that the problems must last."""
    return _LASTS if any(problem.kind in ("plugin", "waiting") for problem in problems) else 1
