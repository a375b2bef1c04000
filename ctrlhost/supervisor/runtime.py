"""The lifecycle of one plugin in a host: loaded, set up, synced, running, stopped; or failed, with the reason.

Exceptions from a plugin's code end here: they are logged under the plugin's name and become its reason. Each plugin
runs its hooks on its own thread, so that a hook that blocks does not delay other plugins.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Literal

from ctrlhost.controller.context import bound
from ctrlhost.coordination.term import Candidacy, Tenure
from ctrlhost.coordination.writes import refused
from ctrlhost.entries import Entries
from ctrlhost.health import Check
from ctrlhost.supervisor.containment import contained, with_place
from ctrlhost.supervisor.crds import Installation, check_crds, install_crds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ctrlhost.config.load import Configuration
    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.plugin.task import Task
    from ctrlhost.supervisor.loader import Plugin, PluginManager

log = logging.getLogger("ctrlhost.host")

State = Literal["failed", "waiting", "syncing", "running", "stopping", "stopped"]

#: Seconds between two checks of the plugin's caches, by state.
_PAUSE: dict[State, float] = {"syncing": 0.01, "waiting": 0.1, "running": 0.5, "stopping": 0, "stopped": 0, "failed": 0}
#: A plugin never moves from one of these to a state of a lower rank; all others have rank 0.
_RANK: dict[State, int] = {"failed": 3, "stopped": 2, "stopping": 1}
_LEVEL: dict[State, int] = {"failed": logging.ERROR, "waiting": logging.WARNING}
_STOPPING_HOOK_TIMEOUT = 5.0
_FAILED_DRAIN = 1.0


class PluginRuntime:
    """One plugin of one host, with its state and the reason for it."""

    def __init__(self, name: str, changed: Callable[[], None] = lambda: None) -> None:
        """Prepare a plugin that is not loaded; `changed` is called after each change of state."""
        self.name = name
        self.state: State = "syncing"
        self.reason = ""
        self.error: BaseException | None = None
        self.plugin: Plugin | None = None
        self.settings: Any = None
        self.context: PluginContext | None = None
        #: Set when the plugin's CRDs are installed, or cannot be installed for now.
        self.crds_tried = threading.Event()
        self._changed = changed
        #: The calls into the plugin's code that run now.
        self.entries = Entries(name, fail=self.fail, changed=changed)
        self._crds: list[dict[str, Any]] = []
        #: Guards `state` and `reason`.
        self._lock = threading.Lock()
        self._draining = threading.Lock()
        self._drained: bool | None = None
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._peers: tuple[PluginRuntime, ...] = ()
        self._thread: threading.Thread | None = None
        #: Controllers and tasks, which may have the same names.
        self._started: set[Controller | Task] = set()
        #: The term whose `ctrlhost_elected` was called last; None while this replica does not lead.
        self._term: int | None = None
        #: What the plugin has to do with leadership, set by the host.
        self.candidacy = Candidacy(Tenure.endless())

    def __repr__(self) -> str:
        """Show name, state and reason."""
        return f"<plugin {self.name} {self.state}{f': {self.reason}' if self.reason else ''}>"

    @property
    def failed(self) -> bool:
        """Whether the plugin has failed; this is final."""
        return self.state == "failed"

    def settled(self) -> bool:
        """Return whether the plugin runs, waits for others, has failed or has stopped."""
        return self.state not in ("syncing", "stopping")

    @property
    def installed(self) -> str:
        """The distribution and version of the plugin; empty for one that was passed as an object."""
        return self.plugin.installed if self.plugin else ""

    @property
    def controllers(self) -> list[Controller]:
        """The plugin's controllers; none before its set-up."""
        return list(self.context.controllers) if self.context else []

    def load(self, manager: PluginManager, implementation: object | None = None) -> None:
        """Import the plugin, or register `implementation` as the plugin."""
        with self._contained("loading"):
            self.plugin = (
                manager.load(self.name) if implementation is None else manager.register(self.name, implementation)
            )

    def configure(self, configuration: Configuration) -> None:
        """Read the plugin's settings; ConfigError if they are invalid, which is not the plugin's fault."""
        if self.plugin is not None and not self.failed:
            with self._contained("ctrlhost_settings"):
                self.settings = configuration.plugin(self.name, self.plugin.settings_type())

    def set_up(self, services: PluginServices) -> None:
        """Call the plugin's `ctrlhost_setup`, in which it registers its controllers and tasks."""
        from ctrlhost.plugin.context import PluginContext

        if self.plugin is None or self.failed:
            return
        with self._contained("ctrlhost_setup"):
            context = PluginContext(self.name, self.settings, services)
            limits = [services.namespaces, *(one.namespaces for one in services.controller_overrides.values())]
            if any(limits):
                # The limit does not apply to cluster-scoped kinds. Installing the CRDs reports a failing hook.
                with contextlib.suppress(Exception):
                    services.client.resources.expect(self.plugin.crds())
            try:
                self.plugin.setup(context)
            except BaseException:
                context.close()
                raise
            self.context = context

    def start(self, *, with_crds: bool | Literal["force"], peers: Sequence[PluginRuntime] = ()) -> None:
        """Start syncing and running on the plugin's own thread, after installing its CRDs if `with_crds`.

        The plugin also waits until all `peers` have installed theirs, or found that they cannot for now.
        """
        if self.context is None or self.failed:
            return
        self._peers = tuple(peer for peer in peers if peer is not self)
        self._thread = threading.Thread(target=self._run, args=(with_crds,), name=f"plugin {self.name}", daemon=True)
        self._thread.start()

    def _run(self, with_crds: bool | Literal["force"]) -> None:
        plugin, context = self.plugin, self.context
        if plugin is None or context is None:
            return
        with bound(plugin=self.name), self._contained("starting"):
            installed = self._prepare_crds(plugin, context, with_crds)
            self.crds_tried.set()
            if not installed:
                return
            for peer in self._peers:
                peer.crds_tried.wait()
            if self._ending.is_set():
                return
            for controller in context.controllers:
                controller.attach()
            context.services.factory.start()
            synced = False
            while not self._ending.is_set():
                behind, waiting = self._unsynced_and_blocked(context)
                if not synced and self._may_start(context):
                    check_crds(self.name, context.services.client, self._crds)
                    with self._contained("ctrlhost_synced"):
                        plugin.synced(context)
                    synced = not self.failed
                    self.candidacy.join()
                if self.failed:
                    return
                if synced:
                    self._follow_leadership(plugin, context)
                    self._start_what_is_ready(context)
                self._report(behind, waiting, synced=synced)
                self._wake.wait(_PAUSE[self.state])
                self._wake.clear()

    def wake(self) -> None:
        """Check at once whether the plugin leads now."""
        self._wake.set()

    @staticmethod
    def _unsynced_and_blocked(context: PluginContext) -> tuple[list[str], list[str]]:
        """Return the names of controllers and informers that have not synced, and why those that wait cannot."""
        parts = [(one.name, one.has_synced(), one.waiting()) for one in context.controllers]
        for informer in context.informers:
            why = f"{informer.key}: {informer.reason}" if informer.state == "waiting" else None
            parts += [(str(informer.key), informer.has_synced, why)]
        return [name for name, synced, why in parts if why or not synced], [why for _, _, why in parts if why]

    @staticmethod
    def _may_start(context: PluginContext) -> bool:
        """Return whether the plugin may start: its caches have synced.

        A controller that waits for a missing CRD or permission does not delay the plugin's other controllers. All of
        them may read the plugin's own informers, so these must have synced in any case.
        """
        controllers = context.controllers
        synced = [controller.has_synced() for controller in controllers]
        settled = all(done or one.waiting() for done, one in zip(synced, controllers, strict=True))
        return settled and (any(synced) or not controllers) and all(one.has_synced for one in context.informers)

    def _report(self, behind: list[str], waiting: list[str], *, synced: bool) -> None:
        if waiting:
            self._set_state("waiting", "; ".join(dict.fromkeys(waiting)))
        elif behind or not synced:
            self._set_state("syncing", f"{', '.join(behind)} not synced yet" if behind else "")
        else:
            self._set_state("running", "")

    def _set_state(self, state: State, reason: str) -> None:
        with self._lock:
            if _RANK.get(state, 0) < _RANK.get(self.state, 0) or (state, reason) == (self.state, self.reason):
                return
            moved = state != self.state
            self.state, self.reason = state, reason
        # The end of a plugin that never started is not logged.
        quiet = self._thread is None and state in ("stopping", "stopped")
        if not quiet and (moved or state != "syncing"):
            line = f"{state}: {reason}" if reason else state
            log.log(_LEVEL.get(state, logging.INFO), "plugin %s %s", self.name, line, extra={"plugin": self.name})
        self._changed()

    def _prepare_crds(self, plugin: Plugin, context: PluginContext, wanted: bool | Literal["force"]) -> bool:
        """Install the CRDs if that is wanted; return whether the plugin can go on."""
        installed = False
        with self._contained("ctrlhost_crds"):
            self._crds = plugin.crds()
            if not wanted:
                return True
            installation = Installation(plugin.version, force=wanted == "force")
            client = context.services.client
            installed = install_crds(client, self._crds, self._ending, self._wait_for_crds, installation)
            # Another plugin may have started informers of these kinds before the server knew the kinds.
            for group in {crd["spec"]["group"] for crd in self._crds}:
                context.services.factory.wake(group)
        return installed

    def _wait_for_crds(self, why: str) -> None:
        self.crds_tried.set()
        self._set_state("waiting", f"installing CRDs: {why}")

    def _follow_leadership(self, plugin: Plugin, context: PluginContext) -> None:
        term = self.candidacy.term
        if term == self._term:
            return
        if self._term is not None:
            with self._contained("ctrlhost_deposed"):
                plugin.deposed(context)
            for task in context.tasks:
                if task.needs_leader:
                    task.stop(0)
                    self._started.discard(task)
        self._term = term
        if term is not None:
            with self._contained("ctrlhost_elected"), context.scope.clients.work() as permit:
                try:
                    plugin.elected(context)
                except BaseException as error:
                    # The hook of the next term follows.
                    if not refused(error, permit):
                        raise

    def _start_what_is_ready(self, context: PluginContext) -> None:
        for controller in context.controllers:
            if self._ending.is_set() or self.failed:
                return
            wanted = self._term is not None or not controller.options.needs_leader
            if wanted and controller in self._started:
                controller.resume()
            elif wanted and controller.has_synced():
                self._started.add(controller)
                controller.start_workers()
        for task in context.tasks:
            # A task that was stopped when leadership was lost may still be running.
            if (self._term is not None or not task.needs_leader) and task not in self._started and not task.running:
                self._started.add(task)
                task.start()

    def stop_intake(self) -> None:
        """Call the plugin's `ctrlhost_stopping`, and accept no new work."""
        with self._lock:
            alive = self.state not in ("failed", "stopped")
        if alive:
            self._set_state("stopping", "")
            self._call_stopping()
        self._halt()

    def _call_stopping(self) -> None:
        plugin, context = self.plugin, self.context
        if plugin is None or context is None or not plugin.implements("ctrlhost_stopping"):
            return

        def hook() -> None:
            with bound(plugin=self.name):
                try:
                    plugin.stopping(context)
                except BaseException as error:  # noqa: BLE001 - a plugin's failure must not stop the shutdown
                    log.error("plugin %s: ctrlhost_stopping: %s", self.name, with_place(error))

        thread = threading.Thread(target=hook, name=f"plugin {self.name} stopping", daemon=True)
        thread.start()
        thread.join(_STOPPING_HOOK_TIMEOUT)
        if thread.is_alive():
            log.error("plugin %s: ctrlhost_stopping did not return within %g s", self.name, _STOPPING_HOOK_TIMEOUT)

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
            if self.failed:
                self.context.fence()
            self.context.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, deadline - time.monotonic()))
            drained = drained and not self._thread.is_alive()
        if self.failed and drained:
            self.candidacy.release()
        if not self.failed:
            self._set_state("stopped", "")
        return drained

    def checks(self) -> list[Check]:
        """Return the plugin's line of a health report, followed by one line per controller."""
        detail = f"{self.state}: {self.reason}" if self.reason else self.state
        degraded = "; ".join(f"{reason}: {why}" for reason, why in sorted(self.entries.degraded.items()))
        detail += f", degraded: {degraded}" if degraded else ""
        lines = [Check(f"plugin/{self.name}", passed=self.state in ("running", "waiting"), detail=detail)]
        for controller in self.controllers:
            status = controller.status()
            text = f"{status.runs} runs, {status.errors} errors, {status.queued} queued"
            if status.waiting:
                text = f"waiting: {status.waiting}"
            elif status.last_error:
                text += f"; last error: {status.last_error}"
            lines.append(Check(f"controller/{controller.name}", passed=True, detail=text))
        return lines

    def fail(self, reason: str, error: BaseException | None = None) -> None:
        """Mark the plugin as failed, and stop its controllers and tasks."""
        self.error = error
        self._set_state("failed", reason)
        self.candidacy.leave(failed=True)
        self._halt()
        if self.context is not None:
            # Not on this thread, which may be a worker or the plugin's own. Draining releases the informers.
            deadline = time.monotonic() + _FAILED_DRAIN
            threading.Thread(target=self.drain, args=(deadline,), name=f"plugin {self.name} end", daemon=True).start()

    def _halt(self) -> None:
        self._ending.set()
        self._wake.set()
        self.crds_tried.set()
        for controller in self.controllers:
            controller.stop_intake()
        for task in self.context.tasks if self.context else ():
            task.stop(0)

    def _contained(self, stage: str) -> AbstractContextManager[None]:
        # Before the plugin has its own thread, mistakes of the operator are raised to the host's caller.
        return contained(self.name, stage, self.fail, everything=self._thread is not None)
