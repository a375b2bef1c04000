"""One plugin's life in a host: loaded, set up, synced, running, stopped; or failed, and why.

Whatever a plugin's code raises ends here: it is logged under the plugin's name, becomes the plugin's reason, and is
seen by nobody else. Each plugin has a thread of its own for its hooks, so that one that blocks holds up no other.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.context import bound
from ctrlhost.health import Check, PluginCheck
from ctrlhost.supervisor.containment import Contained, with_place
from ctrlhost.supervisor.crds import install_crds
from ctrlhost.supervisor.plugin_sync import behind_and_waiting, may_begin
from ctrlhost.supervisor.state import PAUSE, PluginState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.config.load import Configuration
    from ctrlhost.controller.controller import Controller
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.plugin.task import Task
    from ctrlhost.supervisor.loader import Plugin, PluginManager

log = logging.getLogger("ctrlhost.host")

_STOPPING_HOOK_TIMEOUT = 5.0
_FAILED_DRAIN = 1.0


class PluginRuntime(PluginState):
    """One plugin of one host, with its state and the reason for it."""

    def __init__(self, name: str, changed: Callable[[], None] = lambda: None) -> None:
        """Begin a plugin that is not loaded; `changed` is called after each change of state."""
        super().__init__(name, changed)
        self.error: BaseException | None = None
        self.plugin: Plugin | None = None
        self.settings: Any = None
        self.context: PluginContext | None = None
        self.health_checks: list[PluginCheck] = []
        self._draining = threading.Lock()
        self._drained: bool | None = None
        self._ending = threading.Event()
        self._woken = threading.Event()
        #: Set when the plugin's CRDs are there, or when it is known that they can not be for now.
        self.crds_tried = threading.Event()
        self._peers: tuple[PluginRuntime, ...] = ()
        self._thread: threading.Thread | None = None
        #: Controllers and tasks, which may have the same names.
        self._started: set[Controller | Task] = set()
        self._led = False

    @property
    def installed(self) -> str:
        """The distribution and version that the plugin comes from; empty for one that was handed over as an object."""
        return self.plugin.installed if self.plugin else ""

    @property
    def controllers(self) -> list[Controller]:
        """The plugin's controllers; none before its set-up."""
        return list(self.context.controllers) if self.context else []

    def load(self, manager: PluginManager, implementation: object | None = None) -> None:
        """Import the plugin, or take `implementation` for it."""
        with self._contained("loading"):
            self.plugin = (
                manager.load(self.name) if implementation is None else manager.register(self.name, implementation)
            )

    def configure(self, configuration: Configuration) -> None:
        """Read the plugin's settings; ConfigError if they do not fit, which is not the plugin's fault."""
        if self.plugin is not None and not self.failed:
            with self._contained("ctrlhost_settings"):
                self.settings = configuration.plugin(self.name, self.plugin.settings_type())

    def set_up(self, services: PluginServices) -> None:
        """Let the plugin register its controllers and the rest."""
        from ctrlhost.plugin.context import PluginContext

        if self.plugin is None or self.failed:
            return
        with self._contained("ctrlhost_setup"):
            context = PluginContext(self.name, self.settings, services)
            limits = [services.namespaces, *(one.namespaces for one in services.controller_overrides.values())]
            if any(limits):
                # Kinds without namespaces are beyond the limit. A hook that fails is reported when CRDs are needed.
                with contextlib.suppress(Exception):
                    services.client.resources.expect(self.plugin.crds())
            try:
                self.plugin.setup(context)
            except BaseException:
                context.close()
                raise
            self.health_checks = [
                PluginCheck(f"{self.name}/{check.name}", check.check) for check in context.health_checks
            ]
            self.context = context

    def start(self, *, with_crds: bool, peers: Sequence[PluginRuntime] = ()) -> None:
        """Begin to sync and run, on a thread of the plugin's own; with its CRDs installed first if `with_crds`.

        It waits until `peers` have installed theirs, too, or found that they can not for now.
        """
        if self.context is None or self.failed:
            return
        self._peers = tuple(peer for peer in peers if peer is not self)
        self._thread = threading.Thread(target=self._run, args=(with_crds,), name=f"plugin {self.name}", daemon=True)
        self._begun = True
        self._thread.start()

    def _run(self, with_crds: bool) -> None:
        plugin, context = self.plugin, self.context
        if plugin is None or context is None:
            return
        with bound(plugin=self.name), self._contained("starting"):
            installed = not with_crds or self._install_crds(plugin, context)
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
                behind, waiting = behind_and_waiting(context)
                if not synced and may_begin(context):
                    with self._contained("ctrlhost_synced"):
                        plugin.synced(context)
                    synced = not self.failed
                if self.failed:
                    return
                if synced:
                    self._follow_leadership(plugin, context)
                    self._start_what_is_ready(context)
                self._report(behind, waiting, synced=synced)
                self._woken.wait(PAUSE[self.state])
                self._woken.clear()

    def wake(self) -> None:
        """Look at once whether the plugin leads now."""
        self._woken.set()

    def _install_crds(self, plugin: Plugin, context: PluginContext) -> bool:
        with self._contained("ctrlhost_crds"):
            crds = plugin.crds()
            installed = install_crds(
                context.services.client,
                crds,
                self._ending,
                self._wait_for_crds,
            )
            # Another plugin's start may have set informers of these kinds going before the server knew the kinds.
            for group in {crd["spec"]["group"] for crd in crds}:
                context.services.factory.wake(group)
            return installed
        return False

    def _wait_for_crds(self, why: str) -> None:
        self.crds_tried.set()
        self._move("waiting", f"installing CRDs: {why}")

    def _follow_leadership(self, plugin: Plugin, context: PluginContext) -> None:
        leading = context.services.leading()
        if leading == self._led:
            return
        self._led = leading
        hook = plugin.elected if leading else plugin.deposed
        with self._contained("ctrlhost_elected" if leading else "ctrlhost_deposed"):
            hook(context)
        for task in context.tasks:
            if task.needs_leader and not leading:
                task.stop(0)
                self._started.discard(task)

    def _start_what_is_ready(self, context: PluginContext) -> None:
        for controller in context.controllers:
            if self._ending.is_set() or self.failed:
                return
            wanted = self._led or not controller.options.needs_leader
            if wanted and controller in self._started:
                controller.resume()
            elif wanted and controller.has_synced():
                self._started.add(controller)
                controller.start_workers()
        for task in context.tasks:
            # One that was told to stop when leadership was lost may still be at it.
            if (self._led or not task.needs_leader) and task not in self._started and not task.running:
                self._started.add(task)
                task.start()

    def stop_intake(self) -> None:
        """Tell the plugin that the end is near, and take no new work."""
        with self._lock:
            alive = self.state not in ("failed", "stopped")
        if alive:
            self._move("stopping", "")
            self._call_stopping()
        self._ending.set()
        self._woken.set()
        self.crds_tried.set()
        self._halt()

    def _call_stopping(self) -> None:
        plugin, context = self.plugin, self.context
        if plugin is None or context is None or not plugin.implements("ctrlhost_stopping"):
            return

        def hook() -> None:
            with bound(plugin=self.name):
                try:
                    plugin.stopping(context)
                except BaseException as error:  # noqa: BLE001 - a plugin's failure must not keep the host from stopping
                    log.error("plugin %s: ctrlhost_stopping: %s", self.name, with_place(error))

        thread = threading.Thread(target=hook, name=f"plugin {self.name} stopping", daemon=True)
        thread.start()
        thread.join(_STOPPING_HOOK_TIMEOUT)
        if thread.is_alive():
            log.error("plugin %s: ctrlhost_stopping did not return within %g s", self.name, _STOPPING_HOOK_TIMEOUT)

    def drain(self, deadline: float) -> bool:
        """Wait for what is running, until `deadline` (time.monotonic); True if nothing is left. Done once only."""
        with self._draining:
            if self._drained is None:
                self._drained = self._drain(deadline)
            return self._drained

    def _drain(self, deadline: float) -> bool:
        drained = True
        for controller in self.controllers:
            if not controller.drain(max(0.0, deadline - time.monotonic())):
                drained = False
                log.error("controller %s did not finish in time and is left behind", controller.name)
        if self.context is not None:
            for task in self.context.tasks:
                if not task.stop(max(0.0, deadline - time.monotonic())):
                    drained = False
                    log.error("task %s did not finish in time and is left behind", task.name)
            self.context.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, deadline - time.monotonic()))
            drained = drained and not self._thread.is_alive()
        if not self.failed:
            self._move("stopped", "")
        return drained

    def checks(self) -> list[Check]:
        """Give the plugin's line of a health report, and one for each controller that has something to tell."""
        detail = f"{self.state}: {self.reason}" if self.reason else self.state
        lines = [Check(f"plugin/{self.name}", passed=self.state in ("running", "waiting"), detail=detail)]
        for controller in self.controllers:
            status = controller.status()
            told = f"{status.runs} runs, {status.errors} errors, {status.queued} queued"
            if status.waiting:
                told = f"waiting: {status.waiting}"
            elif status.last_error:
                told += f"; last error: {status.last_error}"
            lines.append(Check(f"controller/{controller.name}", passed=True, detail=told))
        return lines

    def fail(self, reason: str, error: BaseException | None = None) -> None:
        """Mark the plugin as failed, and stop what it runs."""
        self.error = error
        self._ending.set()
        self._woken.set()
        self.crds_tried.set()
        self._move("failed", reason)
        self._halt()
        if self.context is not None:
            # Off this thread, which may be a worker or the plugin's own; a plugin that failed shares in no informer.
            deadline = time.monotonic() + _FAILED_DRAIN
            threading.Thread(target=self.drain, args=(deadline,), name=f"plugin {self.name} end", daemon=True).start()

    def _halt(self) -> None:
        for controller in self.controllers:
            controller.stop_intake()
        for task in self.context.tasks if self.context else ():
            task.stop(0)

    def _contained(self, stage: str) -> Contained:
        # Until the plugin has a thread of its own, the host's caller hears of what the operator got wrong.
        return Contained(self.name, stage, self.fail, everything=self._thread is not None)
