"""One attempt to run a plugin: import, set-up, sync, work, clean-up. A restart is another attempt.

An attempt has its own context and its own thread, `PLUGIN/main`, on which it calls the plugin's hooks one at a time. A
hook that is overdue ends the attempt: its thread is abandoned, and the late result dropped.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.context import bound
from ctrlhost.controller.sentences import grant
from ctrlhost.coordination.writes import refused
from ctrlhost.health import Check
from ctrlhost.reflector.reflector import NO_PERMISSION
from ctrlhost.supervisor.containment import Ended, Failure, HookCalls, failing, failure_of
from ctrlhost.supervisor.crds import Installation, check_crds
from ctrlhost.supervisor.range_moves import RangeMoves
from ctrlhost.supervisor.threads import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from ctrlhost.config.load import Configuration
    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.pauses import Pauses
    from ctrlhost.coordination.ownership import Span
    from ctrlhost.entries import Entries, Entry
    from ctrlhost.permissions import Permission
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.plugin.task import Task
    from ctrlhost.supervisor.loader import Plugin
    from ctrlhost.supervisor.owner import Owner, Progress

log = logging.getLogger("ctrlhost.host")

#: Seconds between two checks of the plugin's caches, by state.
_PAUSE = {"syncing": 0.01, "waiting": 0.1}
_USUAL_PAUSE = 0.5
#: Seconds for the plugin's own cleanup, even if the drain has taken all of its time.
_LEAST_CLEANUP = 1.0


class Attempt:
    """One attempt. `start` starts it; `stop_intake` and `drain` end it. Callable from any thread.

    `ChildAttempt` has the same members; where the values here are constant, this process has what that one asks for.
    """

    isolated = False
    pauses: Pauses | None = None
    socket: Path | None = None
    rss = 0

    def __init__(self, owner: Owner, entries: Entries) -> None:
        """Prepare; this starts nothing."""
        self.owner = owner
        self.entries = entries
        #: The plugin's context once it is set up.
        self.context: PluginContext | None = None
        #: The rights that the plugin declares beyond those of its sources.
        self.permissions: tuple[Permission, ...] = ()
        #: Set when the plugin's settings are read, and when it is set up; or when the attempt is over.
        self.configured, self.set_up = threading.Event(), threading.Event()
        #: Set when the first lists are asked, or when the attempt is over.
        self.asked = threading.Event()
        #: Whether the attempt has failed or was asked to end.
        self.ending = threading.Event()
        #: Guards the end of the attempt and the begin of its context, which the end closes.
        self._lock = threading.Lock()
        self._wake = threading.Event()
        #: Whether `ctrlhost_stopping` is to be called at the end.
        self._orderly = False
        #: Set when the plugin has finished `ctrlhost_stopping`, or will not.
        self._halted = threading.Event()
        self._draining = threading.Lock()
        self._drained: bool | None = None
        self._crds: list[dict[str, Any]] = []
        #: Controllers and tasks, which may have the same names.
        self._started: set[Controller | Task] = set()
        #: The term whose `ctrlhost_elected` was called last; None while this replica does not lead.
        self._term: int | None = None
        self._moves = RangeMoves()
        #: How many controllers and informers of the plugin are attached; None before the first.
        self._attached: tuple[int, int] | None = None
        # Leadership has ended already when `ctrlhost_deposed` is called, so its overrun is only reported.
        on_overrun = {"": self._overran, "ctrlhost_deposed": None, "ctrlhost_stopping": self._leave_behind}
        self._hooks = HookCalls(owner.name, entries, on_overrun)
        self.thread = threading.Thread(target=self._run, name=f"{owner.name}/main", daemon=True)

    @property
    def controllers(self) -> list[Controller]:
        """The plugin's controllers; none before its set-up."""
        return list(self.context.controllers) if self.context else []

    @property
    def controller_names(self) -> list[str] | None:
        """The names of the plugin's controllers; None before its set-up."""
        return [controller.name for controller in self.context.controllers] if self.context else None

    @property
    def installed(self) -> str:
        """The distribution and version of the plugin; empty before its import, and for one passed as an object."""
        return self.owner.plugin.installed if self.owner.plugin is not None else ""

    def ask(self, _action: str, _body: bytes, _by: str, _timeout: float) -> tuple[int, bytes] | None:
        """Return None: what an operator asks for is done in this process."""
        return None

    def set_log_level(self, _loggers: tuple[str, ...], _level: str, _seconds: float) -> Future[Any] | None:
        """Return None: the loggers of this process have their level already."""
        return None

    def reload(self, _configuration: Configuration) -> None:
        """Do nothing: the host changes the controllers of this process."""

    def processor_seconds(self) -> float | None:
        """Return the processor time of the attempt's own thread; None where it cannot be read."""
        return processor_seconds(self.thread)

    def checks(self) -> list[Check]:
        """Return a line of a health report per controller."""
        return [
            Check(f"controller/{controller.name}", passed=True, detail=_detail(controller))
            for controller in self.controllers
        ]

    def running_tasks(self) -> list[Task]:
        """Return the plugin's tasks that run."""
        return [task for task in self.context.tasks if task.running] if self.context else []

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def wake(self) -> None:
        """Check at once whether the plugin leads now."""
        self._wake.set()

    def moved(self, opened: Sequence[Span], lost: Sequence[Span]) -> None:
        """Notify the plugin, then its controllers, of ranges that have opened here or were lost; return at once."""
        self._moves.add(opened, lost)
        self._wake.set()

    def _run(self) -> None:
        try:
            with bound(plugin=self.owner.name):
                self._live()
        except Ended:
            pass
        except Failure as failure:
            self.owner.attempt_failed(self, failure)
        except BaseException as error:
            log.debug("plugin %s failed", self.owner.name, exc_info=error)
            self.owner.attempt_failed(self, failure_of("starting", error))
        finally:
            self._halted.set()
            self.configured.set()
            self.set_up.set()
            self.asked.set()
            self.owner.crds_tried.set()

    def _live(self) -> None:
        owner = self.owner
        plugin = self._hooks.call("import", owner.load)
        settings = self._hooks.call("ctrlhost_settings", owner.read_settings, plugin)
        self.configured.set()
        self._wait(owner.may_set_up)
        context = self._make_context(plugin, settings)
        with failing("starting"):
            owner.opened(context, self.ending)
        self.set_up.set()
        try:
            self._serve(plugin, context)
        except Ended:
            if not self._orderly:
                raise
        if self._orderly and not self._halted.is_set():
            try:
                self._hooks.call("ctrlhost_stopping", plugin.stopping, context)
            except Failure as failure:
                log.error("plugin %s: %s", owner.name, failure.reason)

    def _serve(self, plugin: Plugin, context: PluginContext) -> None:
        """Run the plugin, which is set up, until the attempt ends."""
        owner = self.owner
        self._wait(owner.may_run)
        self._report("syncing", "")
        if not self._prepare_crds(plugin, context):
            return
        owner.crds_tried.set()
        for tried in owner.waits_for:
            self._wait(tried)
        self._attach(context)
        self.asked.set()
        # The caches fill meanwhile.
        self._wait(owner.may_work)
        self._work(plugin, context)

    def _wait(self, event: threading.Event) -> None:
        """Wait for an event that the end of the attempt also sets."""
        while not event.wait(_USUAL_PAUSE):
            self._check_alive()
        self._check_alive()

    def _check_alive(self) -> None:
        if self.ending.is_set():
            raise Ended

    def _overran(self, entry: Entry) -> None:
        """End the attempt whose hook is overdue; called on a thread of the host."""
        self.owner.attempt_failed(self, Failure(f"{entry.name} did not return within {entry.deadline:g} s"))

    def _leave_behind(self, entry: Entry) -> None:
        """Begin the drain without `ctrlhost_stopping`."""
        log.error("plugin %s: %s did not return within %g s", self.owner.name, entry.name, entry.deadline)
        self._halted.set()

    def _make_context(self, plugin: Plugin, settings: Any) -> PluginContext:
        from ctrlhost.plugin.context import PluginContext

        services = self.owner.services
        if services is None:
            raise Ended
        context = PluginContext(self.owner.name, settings, services)
        limits = [services.namespaces, *(override.namespaces for override in [*services.controller_overrides.values()])]
        if any(limits) or services.shards is not None:
            # The limit does not apply to cluster-scoped kinds, which have no namespace to share either. Installing the
            # CRDs reports a failing hook.
            with contextlib.suppress(Failure):
                services.client.resources.expect(self._hooks.call("ctrlhost_crds", plugin.crds))
        try:
            self._hooks.call("ctrlhost_setup", plugin.setup, context)
            # A plugin that cannot name its rights can run.
            with contextlib.suppress(Failure):
                self.permissions = tuple(self._hooks.call("ctrlhost_permissions", plugin.permissions, settings))
            # The host waits for this before the first informer, so that a shared one keeps enough for all of its users.
            with failing("starting"):
                for controller in context.controllers:
                    controller.declare()
            with self._lock:
                self._check_alive()
                self.context = context
        except BaseException:
            context.close()
            raise
        return context

    def _prepare_crds(self, plugin: Plugin, context: PluginContext) -> bool:
        """Install CRDs and objects if that is wanted; return whether the plugin can go on."""
        self._crds, wanted = self._hooks.call("ctrlhost_crds", plugin.crds), self.owner.with_crds
        if not wanted:
            return True
        objects = self._hooks.call("ctrlhost_objects", plugin.objects)
        services = context.services
        installation = Installation(plugin.version, force=wanted == "force", addressed=services.addressed)
        client = context.services.client
        with failing("ctrlhost_crds"):
            installed = self.owner.install(client, self._crds, self.ending, self._wait_for_crds, installation, objects)
            # Another plugin may have started informers of these kinds before the server knew the kinds.
            for group in {crd["spec"]["group"] for crd in self._crds}:
                context.services.factory.wake(group)
        return installed

    def _wait_for_crds(self, why: str) -> None:
        self.owner.crds_tried.set()
        self._report("waiting", f"installing CRDs: {why}")

    def _attach(self, context: PluginContext) -> None:
        """Start the informers of the controllers, and those of the plugin itself; again once it has added some."""
        controllers, informers = list(context.controllers), list(context.informers)
        if (len(controllers), len(informers)) == self._attached:
            return
        with failing("starting"):
            for controller in controllers:
                controller.attach()
            for informer in informers:
                informer.choose()
            context.services.factory.start()
        self._attached = len(controllers), len(informers)

    def _work(self, plugin: Plugin, context: PluginContext) -> None:
        """Follow caches and leadership until the attempt ends."""
        synced = False
        while not self.ending.is_set():
            self._attach(context)
            behind, waiting = _unsynced_and_blocked(context)
            if not synced and _may_start(context):
                check_crds(self.owner.name, context.services.client, self._crds)
                self._hooks.call("ctrlhost_synced", plugin.synced, context)
                synced = True
                self._check_alive()
                context.services.candidacy.join()
                shards = context.services.shards
                if shards is not None and shards.ownership.any_open:
                    # As for an earlier attempt.
                    self.moved((), ())
            if synced:
                self._follow_shards(plugin, context)
                self._follow_leadership(plugin, context)
                self._start_what_is_ready(context)
            if waiting:
                if any(NO_PERMISSION in why for why in waiting):
                    waiting.append(f"`{grant(context.services.plugins)}` grants its rights")
                state = self._report("waiting", "; ".join(dict.fromkeys(waiting)))
            elif behind or not synced:
                state = self._report("syncing", f"{', '.join(behind)} not synced yet" if behind else "")
            else:
                state = self._report("running", "")
            self._wake.wait(_PAUSE.get(state, _USUAL_PAUSE))
            self._wake.clear()

    def _report(self, state: Progress, reason: str) -> Progress:
        self.owner.report(self, state, reason)
        return state

    def _follow_leadership(self, plugin: Plugin, context: PluginContext) -> None:
        term = context.services.candidacy.term
        if term == self._term:
            return
        if self._term is not None:
            for task in context.tasks:
                if task.needs_leader:
                    task.stop(0)
                    self._started.discard(task)
            self._hooks.call("ctrlhost_deposed", plugin.deposed, context)
        self._term = term
        if term is not None:
            self._hooks.call("ctrlhost_elected", _elect, plugin, context)

    def _follow_shards(self, plugin: Plugin, context: PluginContext) -> None:
        controllers = [controller for controller in context.controllers if controller.sharded]
        if (move := self._moves.take()) is not None and controllers:
            self._hooks.call("ctrlhost_shards_changed", plugin.shards_changed, context)
            move.pass_on(controllers, f"{self.owner.name}/shards")

    def _start_what_is_ready(self, context: PluginContext) -> None:
        for controller in context.controllers:
            self._check_alive()
            wanted = self._term is not None or not controller.awaits_leadership
            if wanted and controller in self._started:
                controller.lead()
            elif wanted and controller.has_synced():
                self._started.add(controller)
                controller.start_workers()
        for task in context.tasks:
            self._check_alive()
            # A task that was stopped when leadership was lost may still be running.
            if (self._term is not None or not task.needs_leader) and task not in self._started and not task.running:
                if self.owner.left_behind(task.name):
                    continue
                self._started.add(task)
                task.start()

    def stop_intake(self, deadline: float | None = None) -> None:
        """Accept no new work; with a `deadline` (time.monotonic), call `ctrlhost_stopping` before, if there is time."""
        with self._lock:
            self._orderly = deadline is not None and self.context is not None and not self.ending.is_set()
            self.ending.set()
        self._wake.set()
        # The host does not wait for a thread that may hang.
        self.configured.set()
        self.set_up.set()
        if self._orderly and deadline is not None and not self._halted.wait(self._time_for_stopping(deadline)):
            log.error("plugin %s: ctrlhost_stopping was not called: another hook still runs", self.owner.name)
            self._halted.set()
        self.owner.crds_tried.set()
        for controller in self.controllers:
            controller.stop_intake()
        for task in self.context.tasks if self.context else ():
            if task.until != "drained":
                task.stop(0)

    def _time_for_stopping(self, deadline: float) -> float:
        """Return the seconds until the drain begins without the hook; a bit more than the hook's own deadline."""
        allowed = self.entries.deadline("ctrlhost_stopping")
        left = max(0.0, deadline - time.monotonic())
        return min(left, allowed + _USUAL_PAUSE) if allowed else left

    def fence(self) -> None:
        """Refuse all requests of the plugin's clients from now on."""
        if self.context is not None:
            self.context.fence()

    def runs(self) -> bool:
        """Return whether a hook, a controller or a task of the attempt still runs."""
        tasks = self.context.tasks if self.context else ()
        return (
            self.thread.is_alive()
            or any(controller.has_threads for controller in self.controllers)
            or any(task.running for task in tasks)
            or bool(self.context and self.context.scope.clients.writes.in_flight.writes)
        )

    def drain(self, deadline: float) -> bool:
        """Wait for running work until `deadline` (time.monotonic); True if all finished. Only the first call waits."""
        with self._draining:
            if self._drained is None:
                self._drained = self._drain(deadline)
            return self._drained

    def _drain(self, deadline: float) -> bool:
        drained = True
        for controller in self.controllers:
            if not controller.drain(max(0.0, deadline - time.monotonic())):
                drained = False
                log.error("controller %s did not stop in time; abandoned", controller.name)
        if self.context is not None:
            for task in self.context.tasks:
                if not task.stop(max(0.0, deadline - time.monotonic())):
                    drained = False
                    log.error("task %s did not stop in time; abandoned", task.name)
            if not self.context.clean_up(max(_LEAST_CLEANUP, deadline - time.monotonic())):
                drained = False
            in_flight = self.context.scope.clients.writes.in_flight
            if not in_flight.wait(max(0.0, deadline - time.monotonic())):
                drained = False
                count = len(in_flight.writes)
                log.error("plugin %s: writes without an answer at the end: %d", self.owner.name, count)
            self.owner.closed()
            self.context.close()
        if self.thread.ident is not None and self.thread is not threading.current_thread():
            self.thread.join(max(0.0, deadline - time.monotonic()))
            drained = drained and not self.thread.is_alive()
        return drained


def _detail(controller: Controller) -> str:
    status = controller.status()
    if status.waiting:
        return f"waiting: {status.waiting}"
    text = "paused, " if status.paused else ""
    text += f"{status.runs} runs, {status.errors} errors, {status.queued} queued"
    return f"{text}; last error: {status.last_error}" if status.last_error else text


def _elect(plugin: Plugin, context: PluginContext) -> None:
    """Call `ctrlhost_elected`, whose writes belong to the current term; the hook of the next term follows one of it."""
    with context.scope.clients.work() as permit:
        try:
            plugin.elected(context)
        except BaseException as error:
            if not refused(error, permit):
                raise


def _unsynced_and_blocked(context: PluginContext) -> tuple[list[str], list[str]]:
    """Return the names of controllers and informers that have not synced, and why those that wait cannot."""
    parts = [(controller.name, controller.has_synced(), controller.waiting()) for controller in context.controllers]
    for informer in context.informers:
        why = f"{informer.key}: {informer.reason}" if informer.state == "waiting" else None
        parts += [(str(informer.key), informer.has_synced, why)]
    return [name for name, synced, why in parts if why or not synced], [why for _, _, why in parts if why]


def _may_start(context: PluginContext) -> bool:
    """Return whether the plugin may start: its caches have synced.

    A controller that waits for a missing CRD or permission does not delay the plugin's other controllers, unless the
    plugin wants that. All of them may read the plugin's own informers, so these must have synced in any case.
    """
    controllers = list(context.controllers)
    synced = [controller.has_synced() for controller in controllers]
    patient = not context.starts_together
    settled = all(
        done or (patient and controller.waiting()) for done, controller in zip(synced, controllers, strict=True)
    )
    return settled and (any(synced) or not controllers) and all(informer.has_synced for informer in context.informers)
