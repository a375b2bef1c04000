"""The life of one plugin in a host: its states, its restarts, and why it is in the state that it is in."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from ctrlhost.config.settings import Supervision
from ctrlhost.controller.context import bound
from ctrlhost.entries import Entries
from ctrlhost.errors import ConfigError, PluginNotFound
from ctrlhost.health import Check
from ctrlhost.supervisor.attempt import Attempt
from ctrlhost.supervisor.containment import Failure
from ctrlhost.supervisor.crds import install_crds
from ctrlhost.supervisor.left_tasks import LeftTasks
from ctrlhost.supervisor.restart import Restarts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.clock import Clock
    from ctrlhost.config.load import Configuration
    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.coordination.ownership import Span
    from ctrlhost.coordination.term import Candidacy
    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.supervisor.child import ChildAttempt
    from ctrlhost.supervisor.loader import Plugin, PluginManager
    from ctrlhost.supervisor.owner import Progress

log = logging.getLogger("ctrlhost.host")

State = Literal["disabled", "starting", "syncing", "waiting", "running", "failing", "failed", "stopping", "stopped"]

_LEVEL: dict[State, int] = {"failing": logging.ERROR, "failed": logging.ERROR, "waiting": logging.WARNING}
#: States of a plugin that does what it can do now.
_WELL: frozenset[State] = frozenset({"disabled", "waiting", "running", "stopped"})
#: States that an attempt cannot change.
_OVER: frozenset[State] = frozenset({"disabled", "failed", "stopping", "stopped"})
#: How many times the limit of one attempt may hang over all attempts.
_ALL_STUCK = 4
#: Seconds that running work of a failed attempt may take until it is abandoned.
_FAILED_DRAIN = 1.0
#: Seconds between two looks whether abandoned work has ended.
_RELEASE_POLL = 0.05


class PluginRuntime:
    """One plugin of one host, with its state and the reason for it. Methods may be called from any thread."""

    def __init__(self, name: str, clock: Clock, changed: Callable[[], None], notify: Callable[[], None]) -> None:
        """Prepare a plugin; this starts nothing. `clock` times pauses and the running state.

        `changed` is called after each change of state, `notify` when the plugin's code begins to run.
        """
        self.name = name
        self.state: State = "starting"
        self.reason = ""
        #: When the state began, in seconds since the epoch.
        self.since = time.time()
        #: Whether the plugin has ever run or failed.
        self.started = False
        #: When a plugin that waits no longer keeps the host from being ready, by its clock.
        self._waits_until = 0.0
        self.error: BaseException | None = None
        self._label = ""
        #: An invalid setting, or a plugin that is not installed: the host does not start.
        self.mistake: ConfigError | PluginNotFound | None = None
        self.plugin: Plugin | None = None
        self.attempt: Attempt | ChildAttempt | None = None
        self.may_set_up, self.may_run, self.crds_tried = threading.Event(), threading.Event(), threading.Event()
        self.may_work = threading.Event()
        self.with_crds: bool | Literal["force"] = False
        #: The `crds_tried` of the plugin's peers.
        self.waits_for: Sequence[threading.Event] = ()
        self.services: PluginServices | None = None
        #: What the host allows the plugin.
        self.supervision = Supervision()
        #: Installs CRDs; the host does it for a plugin in a process of its own.
        self.install: Callable[..., bool] = install_crds
        #: Whether each new state is logged.
        self.logs_states = True
        #: Makes the next attempt, of this runtime and its entries.
        self.new_attempt: Callable[[PluginRuntime, Entries], Attempt | ChildAttempt] = Attempt
        #: The rules that the plugin needs, and those that its account lacks, one line each; as they were checked last.
        self.rights: tuple[str, ...] = ()
        self.missing_rights: tuple[str, ...] = ()
        #: The number of restarts by reason; only grows.
        self.restarted: Counter[str] = Counter()
        #: The number of overruns by entry; only grows.
        self.overruns: Counter[str] = Counter()
        self._clock = clock
        self._changed = changed
        self._notify = notify
        self._load: Callable[[], Plugin] | None = None
        self._configuration: Configuration | None = None
        self._listen: Callable[[PluginContext], Callable[[], None]] = lambda _context: lambda: None
        self._close_listeners: Callable[[], None] = lambda: None
        self._restarts = Restarts(self.supervision.restart_limit, self.supervision.restart_delay)
        self._running_since: float | None = None
        self._entries: list[Entries] = []
        self._left = LeftTasks()
        #: Guards the state and the attempt.
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._prepared = self._may_log_end = False

    def __repr__(self) -> str:
        """Show name, state and reason."""
        return f"<plugin {self.name} {self.state}{f': {self.reason}' if self.reason else ''}>"

    @property
    def failed(self) -> bool:
        """Whether the plugin has failed for good."""
        return self.state == "failed"

    def settled(self) -> bool:
        """Return whether the plugin runs, waits for others or for its restart, has failed or has stopped."""
        return self.state not in ("starting", "syncing", "stopping")

    @property
    def waits_long(self) -> bool:
        """Whether the plugin waits, and the setting `start_timeout` has passed."""
        return self.state == "waiting" and self._clock.now() >= self._waits_until

    @property
    def installed(self) -> str:
        """The distribution and version of the plugin; empty for one that was passed as an object."""
        return self.attempt.installed if self.attempt is not None else ""

    @property
    def isolated(self) -> bool:
        """Whether the plugin runs in a process of its own."""
        return self.attempt is not None and self.attempt.isolated

    @property
    def context(self) -> PluginContext | None:
        """The context of the current attempt, once the plugin is set up and until the attempt fails."""
        # In this order: a restart replaces the attempt before the state.
        ended, attempt = self.state in ("failing", "failed"), self.attempt
        return attempt.context if attempt is not None and not ended else None

    @property
    def controllers(self) -> list[Controller]:
        """The plugin's controllers; none before its set-up."""
        return list(self.context.controllers) if self.context else []

    @property
    def controller_names(self) -> Sequence[str] | None:
        """The names of the plugin's controllers; None before its set-up and after a failure."""
        attempt = None if self.state in ("failing", "failed") else self.attempt
        return attempt.controller_names if attempt is not None else None

    @property
    def entries(self) -> Entries:
        """The entries of the current attempt."""
        return self._entries[-1] if self._entries else Entries(self.name)

    def all_entries(self) -> list[Entries]:
        """Return the entries of the current attempt, and of those before whose threads still hang."""
        with self._lock:
            self._entries = [entries for entries in self._entries[:-1] if entries.active] + self._entries[-1:]
            return list(self._entries)

    def begin(
        self,
        manager: PluginManager,
        implementation: object | None,
        configuration: Configuration,
    ) -> None:
        """Begin to import the plugin, or to register `implementation` as the plugin, and to read its settings."""
        if self.failed:
            return
        self._configuration = configuration
        self._waits_until = self._clock.now() + configuration.host.start_timeout
        self.supervision = configuration.supervision(self.name)
        self._restarts = Restarts(self.supervision.restart_limit, self.supervision.restart_delay)
        if not self.supervision.enabled:
            self._set_state("disabled", "")
            self.crds_tried.set()
            return
        self._load = lambda: (
            manager.load(self.name) if implementation is None else manager.register(self.name, implementation)
        )
        self._try()

    def reload(self, configuration: Configuration) -> None:
        """Use a configuration whose deadlines may have changed, from now on and in later attempts."""
        self._configuration = configuration
        self.supervision = configuration.supervision(self.name)
        for entries in self.all_entries():
            entries.set_deadlines(self._deadlines())
        if self.attempt is not None:
            self.attempt.reload(configuration)

    def _deadlines(self) -> dict[str, float]:
        deadlines = self.supervision.deadlines
        return {name: float(getattr(deadlines, name)) for name in deadlines.__struct_fields__}

    def _try(self) -> None:
        """Begin an attempt."""
        entries = Entries(
            self.name,
            self._deadlines(),
            self.overruns,
            stuck_limit=self.supervision.stuck_limit,
            began=self._notify,
            fail=lambda reason: self.failed_now(attempt, reason),
            changed=self._changed,
        )
        attempt = self.new_attempt(self, entries)
        with self._lock:
            if self._ended.is_set():
                return
            for reason in self.entries.degraded:
                self.entries.recover(reason)
            self._entries.append(entries)
            self.attempt = attempt
            self._running_since = None
            self._set_state("starting", "")
            attempt.start()

    def load(self) -> Plugin:
        """Return the plugin; imported by the first attempt that can."""
        if self.plugin is None and self._load is not None:
            self.plugin = self._load()
        if self.plugin is None:
            raise PluginNotFound(self.name, "it was not loaded")
        return self.plugin

    def read_settings(self, plugin: Plugin) -> Any:
        """Return the plugin's settings; ConfigError if they are invalid."""
        configuration = self._configuration
        return configuration.plugin(self.name, plugin.settings_type()) if configuration is not None else None

    @property
    def declared_rights(self) -> Sequence[Permission]:
        """The rights that the plugin declares beyond those of its sources; none before its set-up."""
        return self.attempt.permissions if self.attempt is not None else ()

    def prepared(self) -> None:
        """Raise the mistake of the operator in the plugin's settings, if there is one."""
        if self.mistake is not None:
            raise self.mistake

    def is_set_up(self) -> None:
        """Fail only this plugin, from now on, for what would have been a mistake of the operator before."""
        with self._lock:
            self._prepared = True
        self.prepared()

    def set_up(self, services: PluginServices, listen: Callable[[PluginContext], Callable[[], None]]) -> None:
        """Allow the set-up of the plugin, now or as soon as it is configured; `listen` opens its listeners."""
        self.services, self._listen = services, listen
        if self.state in ("disabled", "failed"):
            services.candidacy.leave(failed=True)
            services.candidacy.release()
        self.may_set_up.set()
        self.wake()

    def run(
        self, *, with_crds: bool | Literal["force"], peers: Sequence[PluginRuntime] = (), only_sync: bool = False
    ) -> None:
        """Allow the plugin to sync and run, after installing its CRDs if `with_crds`.

        The plugin also waits until all `peers` have installed theirs, or found that they cannot for now. With
        `only_sync` it does not run until `work` is called.
        """
        if not only_sync:
            self.may_work.set()
        self.with_crds = with_crds
        self.waits_for = tuple(peer.crds_tried for peer in peers if peer is not self)
        self.may_run.set()
        self.wake()

    def work(self) -> None:
        """Allow the plugin to run once its caches have synced."""
        self.may_work.set()
        self.wake()

    def opened(self, context: PluginContext, ending: threading.Event) -> None:
        """Open the plugin's listeners until `ending`; ConfigError for an address that cannot be bound."""
        close = self._listen(context)
        with self._lock:
            if not ending.is_set():
                self._close_listeners = close
                return
        close()

    def closed(self) -> None:
        """Close the listeners of an attempt that is ending, before the loop ends that they run on."""
        with self._lock:
            close, self._close_listeners = self._close_listeners, lambda: None
        close()

    def left_behind(self, task: str) -> bool:
        """Return whether a task of this name still runs for an earlier attempt; logged once."""
        return self._left.has(task)

    def report(self, attempt: object, state: Progress, reason: str) -> None:
        """Note the progress of an attempt."""
        with self._lock:
            if attempt is not self.attempt or self.state in _OVER or self.state == "failing":
                return
            if state == "running" and self._running_since is None:
                self._running_since = self._clock.now()
            self._set_state(state, reason)
            if self.services is not None:
                self.services.candidacy.waits(state == "waiting")

    def fail(self, reason: str) -> None:
        """Fail for good before the first attempt."""
        self._set_state("failed", reason)
        self.crds_tried.set()

    def failed_now(self, attempt: object, reason: str) -> None:
        """End an attempt for `reason`; for good if too many threads of all attempts hang."""
        stuck = sum(entries.stuck() for entries in self.all_entries())
        limit = _ALL_STUCK * self.supervision.stuck_limit
        if stuck >= limit:
            hint = f'set `process = "own"` in [supervision.{self.name}]: the threads of a process end with it'
            why = f"{stuck} threads of all its attempts hang (hint: {hint})"
            self.attempt_failed(attempt, Failure(why, final=True))
        else:
            self.attempt_failed(attempt, Failure(reason))

    def attempt_failed(self, attempt: object, failure: Failure) -> None:
        """End an attempt, and restart the plugin after a pause unless that cannot help; called once per attempt."""
        with self._lock:
            current = self.attempt
            if current is None or attempt is not current or self.state in _OVER or self.state == "failing":
                return
            self.error, self._label = failure.error, failure.label
            if isinstance(failure.error, (ConfigError, PluginNotFound)) and not self._prepared:
                # Raised to the caller of the host, who shows it.
                self.mistake, self.state = failure.error, "failed"
                return
            now = self._clock.now()
            ran = None if self._running_since is None else now - self._running_since
            pause = None if failure.final else self._restarts.next_pause(ran, now)
            self._set_state("failing" if pause is not None else "failed", failure.reason)
        threading.Thread(
            target=self._end_and_restart, args=(current, pause), name=f"{self.name}/restart", daemon=True
        ).start()

    def _end_and_restart(self, attempt: Attempt | ChildAttempt, pause: float | None) -> None:
        with bound(plugin=self.name):
            try:
                self._clean_up(attempt, failed=pause is None)
            except Exception:
                # The plugin restarts in any case.
                log.exception("plugin %s: the clean-up failed", self.name)
            if pause is None or self._clock.wait_until(self._ended, self._restarts.at):
                return
            with self._lock:
                if self.state != "failing":
                    return
                self.restarted[self._label] += 1
                # Its traceback refers to the context of the attempt.
                self.error = None
                log.info("plugin %s restarts: %d of %d", self.name, self._restarts.count, self._restarts.limit)
                self._try()

    def _clean_up(self, attempt: Attempt | ChildAttempt, *, failed: bool) -> None:
        """End what an attempt has left; `failed` if there is no other."""
        candidacy = self.services.candidacy if self.services is not None else None
        if candidacy is not None:
            candidacy.waits(False)
            candidacy.leave(failed=failed)
        attempt.stop_intake()
        self.closed()
        drained = attempt.drain(time.monotonic() + _FAILED_DRAIN)
        attempt.fence()
        self._left.add(attempt.running_tasks())
        if candidacy is not None and candidacy.elects:
            if drained:
                candidacy.release()
            else:
                name = f"{self.name}/release"
                threading.Thread(target=self._release, args=(attempt, candidacy), name=name, daemon=True).start()

    def _release(self, attempt: Attempt | ChildAttempt, candidacy: Candidacy) -> None:
        """Release the lease when nothing of an attempt runs any more; until then it may expire."""
        while attempt.runs():
            if self._ended.wait(_RELEASE_POLL):
                return
        candidacy.release()

    def _set_state(self, state: State, reason: str) -> None:
        with self._lock:
            if (state, reason) == (self.state, self.reason):
                return
            moved = state != self.state
            # The end of a plugin that never ran is not logged.
            quiet = state == "starting" or (state in ("stopping", "stopped") and not self._may_log_end)
            if moved:
                self.since = time.time()
            self.state, self.reason = state, reason
            self.started = self.started or state not in ("starting", "syncing", "waiting")
            if self.logs_states and not quiet and (moved or state != "syncing"):
                line = f"{state}: {reason}" if reason else state
                log.log(_LEVEL.get(state, logging.INFO), "plugin %s %s", self.name, line, extra={"plugin": self.name})
        self._changed()

    def wake(self) -> None:
        """Check at once whether the plugin leads now."""
        if self.attempt is not None:
            self.attempt.wake()

    def moved(self, opened: Sequence[Span], lost: Sequence[Span]) -> None:
        """Notify the plugin of ranges of keys that have opened here, and that were lost; return at once."""
        if self.attempt is not None:
            self.attempt.moved(opened, lost)

    def stop(self, deadline: float) -> bool:
        """Call `ctrlhost_stopping`, accept no new work, and wait for running work until `deadline` (time.monotonic).

        Return whether all of it finished.
        """
        with self._lock:
            self._ended.set()
            attempt, alive = self.attempt, self.state not in ("disabled", "failed", "stopped")
            well = alive and self.state != "failing"
            self._may_log_end = self.may_run.is_set()
            if alive:
                self._set_state("stopping", "")
        self.may_set_up.set()
        self.may_run.set()
        self.may_work.set()
        drained = True
        if attempt is not None:
            attempt.stop_intake(deadline if well else None)
            drained = attempt.drain(deadline) or not well
        self.closed()
        if alive:
            self._set_state("stopped", "")
        return drained

    def checks(self) -> list[Check]:
        """Return the plugin's line of a health report, followed by one line per controller."""
        well = self.state in _WELL
        # It runs, and other plugins do: a missing right is no reason to take the host out of service.
        passed = well and "forbidden" not in self.entries.degraded
        lines = [Check(f"plugin/{self.name}", passed=passed, detail=self._detail(), decides=not well)]
        attempt = self.attempt
        return lines if attempt is None or self.state in ("failing", "failed") else [*lines, *attempt.checks()]

    def restarts_in(self) -> float | None:
        """Return the seconds until the restart of a plugin that is failing; None for any other."""
        return max(0.0, self._restarts.at - self._clock.now()) if self.state == "failing" else None

    def _detail(self) -> str:
        with self._lock:
            detail = f"{self.state}: {self.reason}" if self.reason else self.state
            if (left := self.restarts_in()) is not None:
                return f"{detail}, restart {self._restarts.count} of {self._restarts.limit} in {left:.0f} s"
        degraded = "; ".join(f"{reason}: {why}" for reason, why in sorted(self.entries.degraded.items()))
        return f"{detail}, degraded: {degraded}" if degraded else detail
