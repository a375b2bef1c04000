"""One attempt to run a plugin in a process of its own: the counterpart of `Attempt` for an isolated plugin.

The process is `ctrlhost.host.child`. It runs the plugin as a host would, but reads the host's caches through the feed,
follows the host's leadership, and has the host install its CRDs. It does not restart the plugin: when that has failed,
the process ends, and the host begins another attempt.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, cast

from ctrlhost.controller.context import bound
from ctrlhost.errors import ConfigError
from ctrlhost.supervisor import channel as messages
from ctrlhost.supervisor.child_actions import ChildActions
from ctrlhost.supervisor.child_health import ChildHealth
from ctrlhost.supervisor.child_requests import ChildRequests
from ctrlhost.supervisor.containment import Failure, failure_of
from ctrlhost.supervisor.loader import installed_plugins
from ctrlhost.supervisor.process import Process, described

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from ctrlhost.config.load import Configuration
    from ctrlhost.entries import Entries
    from ctrlhost.health import Check
    from ctrlhost.permissions import Permission
    from ctrlhost.supervisor.isolation import Isolation
    from ctrlhost.supervisor.owner import Owner, Progress

log = logging.getLogger("ctrlhost.host")

#: Seconds between two looks at the process: its memory, its heartbeat, the host's term.
_PERIOD = 0.25
#: Seconds for a process that hangs to write its stacks, and for one whose plugin has failed to end.
_LAST_WORDS, _FAILED_END = 1.0, 3.0
#: Seconds that a process may run without its control socket, and until its first message, at least.
_SILENT_END, _START = 1.0, 30.0
#: The multiple of its memory limit at which a process is killed, and the seconds for its drain at the limit itself.
_FAR_OVER, _MEMORY_DRAIN = 1.25, 10.0
#: The seconds of a drain, at most a quarter of it, in which the process ends after its plugin.
_END = 1.0
_MIB = 1 << 20


class ChildAttempt:
    """One attempt. `start` starts it; `stop_intake` and `drain` end it. Callable from any thread."""

    isolated = True
    #: These are in the other process.
    context = None
    controllers: Sequence[Any] = ()

    def __init__(self, owner: Owner, entries: Entries, isolation: Isolation) -> None:
        """Prepare; this starts nothing."""
        self.owner = owner
        self.entries = entries
        #: Set when the plugin's settings are read, and when it is set up; or when the attempt is over.
        self.configured, self.set_up = threading.Event(), threading.Event()
        #: Whether the attempt has failed or was asked to end.
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"{owner.name}/process", daemon=True)
        #: The process; None before it is started.
        self.process: Process | None = None
        #: The names of its controllers, once the plugin is set up, and its memory in bytes.
        self.controller_names: tuple[str, ...] | None = None
        self.rss = 0
        #: Its process checks the plugin's rights.
        self.permissions: tuple[Permission, ...] = ()
        self._isolation = isolation
        #: Which controllers an operator has paused, for the next process.
        self.pauses = isolation.pauses
        #: The messages of the process, and those for it from threads that must not wait.
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        #: What the process says about the plugin's health.
        self.health = ChildHealth(
            lambda: entries.deadline("health"), lambda number: self._inbox.put(messages.Probe(number))
        )
        #: What operators ask of the plugin.
        self.actions = ChildActions(self._inbox.put)
        self._lock = threading.Lock()
        self._requests: ChildRequests | None = None
        #: Whether the process was ever heard of, and for how many seconds it was not since.
        self._heard, self._silence = False, 0.0
        #: What the process was told: to set up, to run, and the last term.
        self._may_set_up = self._may_run = False
        self._told: messages.Lead | None = None
        #: Why the process is about to end, and when it is killed.
        self._failure: Failure | None = None
        self._kill_at: float | None = None
        #: Whether all work had ended before the process; and set when the attempt is over.
        self._complete = False
        #: Whether the end of the attempt does not wait for a drain.
        self._killed = False
        self._over = threading.Event()

    @property
    def socket(self) -> Path | None:
        """The socket of the process's own server, while the process runs and has no reason to end."""
        process = self.process
        if process is None or process.ended or self._failure is not None:
            return None
        return process.directory / "pages.sock"

    def processor_seconds(self) -> float | None:
        """Return the processor time of the process so far, and before it that of the one that will fork it."""
        return self.process.cpu_seconds() if self.process is not None else self._isolation.forks.cpu_seconds()

    def checks(self) -> Sequence[Check]:
        """Return the lines of a health report after the plugin's own, as the process sent them last."""
        return self.health.lines()

    def running_tasks(self) -> list[Any]:
        """Return no task: nothing of a plugin outlives its process."""
        return []

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def wake(self) -> None:
        """Check at once what the plugin may do now, and whether the host leads."""
        self._inbox.put(None)

    def moved(self, _opened: object, _lost: object) -> None:
        """Do nothing: the controllers of a process of its own run on the leader."""

    @property
    def installed(self) -> str:
        """The distribution and version of the plugin, or its file; it is not imported here."""
        if (source := self._isolation.sources.get(self.owner.name)) is not None:
            return str(source)
        return ", ".join(map(str, installed_plugins().get(self.owner.name, ())))

    def ask(self, action: str, body: bytes, by: str, timeout: float) -> tuple[int, bytes] | None:
        """Return the answer of the process to an operator; None without a process, TimeoutError if it hangs."""
        if self.socket is None:
            return None
        try:
            answer = self.actions.ask(lambda number: messages.Act(number, action, body, by)).result(timeout)
        except ConnectionError:
            return None
        return answer.status, answer.body

    def set_log_level(self, loggers: tuple[str, ...], level: str, seconds: float) -> Future[Any] | None:
        """Ask the process to change the level of loggers; return what ends when it has, if it runs."""
        if self.socket is None:
            # One that begins now may have been told the levels of before.
            self._inbox.put(messages.LogLevel(loggers, level, seconds))
            return None
        return self.actions.ask(lambda number: messages.LogLevel(loggers, level, seconds, number))

    def reload(self, configuration: Configuration) -> None:
        """Send the process the configuration that has changed."""
        self._inbox.put(messages.Reload(configuration))

    def _run(self) -> None:
        failure: Failure | None = None
        try:
            with bound(plugin=self.owner.name):
                failure = self._live()
        except BaseException as error:
            log.debug("plugin %s failed", self.owner.name, exc_info=error)
            failure = failure_of("starting its process", error)
        try:
            self._clean_up()
        finally:
            if failure is not None:
                self._report(failure)
            self.configured.set()
            self.set_up.set()
            self.owner.crds_tried.set()

    def _report(self, failure: Failure) -> None:
        if not self.ending.is_set():
            self.owner.attempt_failed(self, failure)
        elif self.process is not None and self.process.code not in (0, -signal.SIGKILL) and not self._complete:
            log.error("plugin %s: %s", self.owner.name, failure.reason)

    def _clean_up(self) -> None:
        process = self.process
        if process is not None:
            process.kill()
            process.wait()
            process.channel.close()
            with contextlib.suppress(OSError):
                (process.directory / "pages.sock").unlink(missing_ok=True)
        self.rss = 0
        self.health.end()
        self.actions.end()
        try:
            if self._requests is not None:
                self._requests.close()
        finally:
            self._over.set()

    def _live(self) -> Failure | None:
        """Start the process, and follow it until it ends; return why it did."""
        directory, forks = self._isolation.directory(self.owner.name), self._isolation.forks
        forks.prepare(unless=self.ending)
        with self._lock:
            if self.ending.is_set():
                return None
            spent = self._isolation.cpu_seconds(self.owner.name)
            process = self.process = self._isolation.processes[self.owner.name] = Process(
                self.owner.name, directory, forks, spent
            )
            # Before the end of the attempt can ask for a drain.
            process.channel.send(self._begin(directory))
        self._requests = ChildRequests(self.owner, process, self._isolation, self.ending)
        reading = threading.Thread(
            target=self._receive, args=(process,), name=f"{self.owner.name}/messages", daemon=True
        )
        reading.start()
        threading.Thread(
            target=self._await_end, args=(process, reading), name=f"{self.owner.name}/end", daemon=True
        ).start()
        looked = time.monotonic()
        while not isinstance(message := self._next(), _Ended):
            # No longer than that if the host itself was stopped, or very busy.
            self._silence += min(time.monotonic() - looked, 2 * _PERIOD)
            looked = time.monotonic()
            if message is not None:
                self._heard, self._silence = True, 0.0
                self._take(message)
            self._allow(process)
            self._watch(process, looked)
        return self._explain_end(process)

    def _next(self) -> Any:
        try:
            return self._inbox.get(timeout=_PERIOD)
        except queue.Empty:
            return None

    def _begin(self, directory: Path) -> messages.Start:
        isolation = self._isolation
        return messages.Start(
            self.owner.name,
            isolation.settings,
            isolation.configuration,
            str(directory / "feed.sock"),
            str(directory / "pages.sock"),
            elects_itself=isolation.elects(self.owner.name),
            plugins=isolation.plugins,
            pauses=isolation.pauses.states(),
            controllers=tuple(isolation.pauses.known(self.owner.name)),
            log_levels=isolation.log_levels(),
            source=isolation.sources.get(self.owner.name),
        )

    def _receive(self, process: Process) -> None:
        while (message := process.channel.receive()) is not None:
            self._inbox.put(message)
            if isinstance(message, messages.Invalid):
                # The process is ended for it.
                return
        if not process.wait(_SILENT_END):
            log.error("plugin %s: the control socket of its process %d is closed; killed", self.owner.name, process.pid)
            process.kill()

    def _await_end(self, process: Process, reading: threading.Thread) -> None:
        process.wait()
        # A process that it has started may hold the socket.
        process.channel.receive_rest()
        reading.join()
        self._inbox.put(_Ended())

    def _take(self, message: Any) -> None:
        match message:
            case messages.Configured():
                self.configured.set()
            case messages.Mistake(text, hint):
                raise failure_of("loading", ConfigError(text, hint=hint))
            case messages.IsSetUp(pages, controllers, webhooks):
                self._isolation.pages[self.owner.name], self.controller_names = pages, controllers
                self._isolation.pauses.know(controllers)
                if webhooks:
                    self._isolation.has_webhooks(self.owner.name, webhooks)
                self.set_up.set()
            case messages.Probe() | messages.LogLevel() | messages.Reload() | messages.Act() if self.process:
                self.process.channel.send(message)
            case messages.Acted():
                self.actions.answered(message)
            case messages.Synced() if self.owner.services is not None:
                self.owner.services.candidacy.join()
            case messages.Beat():
                self._beat(message)
            case messages.Drained(complete):
                self._complete = complete
            case messages.Invalid(problem):
                self._fail(Failure(f"its process sent {problem}", label="error"), time.monotonic())
            case _ if self._requests is not None:
                self._requests.take(message)

    def _beat(self, beat: messages.Beat) -> None:
        self.health.heard(beat)
        # The process reads what the host has, so it does not know why there is nothing new.
        over_budget = self._requests.over_budget() if self._requests is not None else ""
        self.entries.follow(beat.degraded)
        if over_budget:
            self.entries.degrade("over-budget", over_budget)
        else:
            self.entries.recover("over-budget")
        if beat.state == "failed":
            label = "deadline" if beat.hangs else "error"
            failure = Failure(beat.reason, final=beat.final, label=label)
            self._fail(failure, time.monotonic() + _FAILED_END)
        elif beat.state in ("starting", "syncing", "waiting", "running"):
            self.owner.report(self, cast("Progress", beat.state), beat.reason)

    def _fail(self, failure: Failure, kill_at: float) -> None:
        """Note why the process is about to end; only the first reason counts."""
        if self._failure is None and not self.ending.is_set():
            self._failure, self._kill_at = failure, kill_at

    def _allow(self, process: Process) -> None:
        """Send to the process what it may do now."""
        owner = self.owner
        if owner.services is None:
            return
        candidacy = owner.services.candidacy
        lead = messages.Lead(*candidacy.tenure.current, candidacy.leader(), elects=candidacy.elects)
        if lead != self._told and process.channel.send(lead):
            self._told = lead
        if self.ending.is_set():
            return
        if not self._may_set_up and self.configured.is_set() and owner.may_set_up.is_set():
            self._may_set_up = process.channel.send(messages.SetUp(self._isolation.kubeconfig))
        if not self._may_run and self.set_up.is_set() and owner.may_run.is_set():
            if not owner.with_crds:
                owner.crds_tried.set()
            self._may_run = process.channel.send(messages.Run(owner.with_crds))

    def _watch(self, process: Process, now: float) -> None:
        """End a process that hangs, has too much memory, or does not end."""
        supervision = self.owner.supervision
        limit, timeout = supervision.memory_limit, float(supervision.heartbeat_timeout)
        silent = self._silence >= (timeout if self._heard else max(timeout, _START))
        self.rss = process.rss() or self.rss
        if limit is not None and self.rss > limit:
            reason = f"it has {self.rss // _MIB} MiB, and its limit is {limit // _MIB} MiB"
            far, first = self.rss > _FAR_OVER * limit, self._failure is None
            self._fail(Failure(reason, label="memory"), now if far else now + _MEMORY_DRAIN)
            if far:
                process.kill()
            elif first and not self.ending.is_set():
                log.warning("plugin %s: %s: it drains and restarts", self.owner.name, reason)
                self._drain_by(process, now + _MEMORY_DRAIN, memory=True)
        elif silent and self._failure is None and not self.ending.is_set():
            self._fail(Failure(f"no heartbeat for {self._silence:.0f} s", label="heartbeat"), now + _LAST_WORDS)
            process.signal(signal.SIGUSR1)
        if self._kill_at is not None and now >= self._kill_at:
            process.kill()

    @staticmethod
    def _drain_by(process: Process, deadline: float, *, memory: bool = False) -> None:
        left = max(0.0, deadline - time.monotonic())
        process.channel.send(messages.Drain(left - min(_END, left / 4), memory=memory))

    def _explain_end(self, process: Process) -> Failure:
        """Return the failure of a process that has ended."""
        seen = self._failure
        if seen is not None and seen.label not in ("heartbeat", "memory"):
            return seen
        label = seen.label if seen is not None else "signal" if process.code < 0 else "exit"
        up, memory = time.monotonic() - process.began, f"{self.rss // _MIB} MiB"
        line = f"its process {process.pid} ended after {up:.1f} s with {memory}: {described(process.code)}"
        return Failure(f"{line}: {seen.reason}" if seen is not None else line, label=label)

    def stop_intake(self, deadline: float | None = None) -> None:
        """Ask the process to stop in order until `deadline` (time.monotonic), or end it."""
        with self._lock:
            self.ending.set()
            process = self.process
        self.configured.set()
        self.set_up.set()
        self.owner.crds_tried.set()
        if process is None:
            return
        if deadline is not None and self._may_set_up and deadline > time.monotonic():
            self._drain_by(process, deadline)
        else:
            # Nothing of a plugin that is not set up has to be finished.
            self._complete, self._killed = not self._may_set_up, True
            process.kill()

    def drain(self, deadline: float) -> bool:
        """Wait until `deadline` (time.monotonic) for the end of the process; True if all of its work had finished."""
        process = self.process
        if process is None:
            return True
        if not self._over.wait(None if self._killed else max(0.0, deadline - time.monotonic())):
            log.error("plugin %s: its process %d did not stop in time; killed", self.owner.name, process.pid)
            process.kill()
            self._over.wait()
            return False
        return self._complete

    def fence(self) -> None:
        """End the process: nothing of it runs on."""
        if self.process is not None:
            self.process.kill()

    def runs(self) -> bool:
        """Return whether the process runs."""
        return self.process is not None and not self._over.is_set()


class _Ended:
    """The end of the process, after its last message."""
