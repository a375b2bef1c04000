"""The process of an isolated plugin, `python -m ctrlhost.host.child FD PLUGIN`, which a host starts.

It is a host with one plugin: its informers read the feed of the other host, whose leadership it follows, and which
installs its CRDs. Exit codes: 0 after an orderly end, 1 when the plugin has failed, 2 for a mistake in the settings, 3
when the control socket was closed, 4 for the memory limit.
"""

from __future__ import annotations

import faulthandler
import itertools
import logging
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace as with_settings

from ctrlhost import _core
from ctrlhost.clock import SystemClock
from ctrlhost.controller.pauses import Pauses
from ctrlhost.coordination.term import Candidacy, Tenure
from ctrlhost.errors import ConfigError, CtrlhostError, PluginNotFound
from ctrlhost.host.admin import Admin
from ctrlhost.host.host import Host
from ctrlhost.host.log_levels import levels
from ctrlhost.host.metrics import of_child
from ctrlhost.host.reload import apply
from ctrlhost.host.switch_interval import switching_after
from ctrlhost.supervisor import channel as messages
from ctrlhost.supervisor.channel import Channel
from ctrlhost.supervisor.containment import is_final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctrlhost.client import Client
    from ctrlhost.config.load import Configuration
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.informers import InformerFactory
    from ctrlhost.plugin.probe import PluginCheck
    from ctrlhost.supervisor.crds import Installation
    from ctrlhost.supervisor.runtime import PluginRuntime

log = logging.getLogger("ctrlhost.host")

_STOPPED, _FAILED, _MISTAKE, _ABANDONED, _MEMORY = range(5)
#: Seconds between two heartbeats, at most a quarter of the time after which none counts as a failure.
_HEARTBEAT = 1.0
#: Seconds for the end of what a failed plugin has left.
_FAILED_DRAIN = 1.0
#: Seconds between two looks at what nobody reports: at the end of the set-up often.
_PERIOD, _SET_UP = 0.5, 0.01


class ChildHost(Host):
    """The host of one plugin in a process of its own."""

    _probes = False
    # The other host has checked them.
    _names_all_plugins = False

    def __init__(self, start: messages.Start, channel: Channel) -> None:
        """Prepare to run the plugin as `start` says."""
        own = start.elects_itself
        settings = with_settings(
            start.settings,
            plugins=(start.plugin,),
            listen="",
            listen_probes=None,
            listen_metrics=None,
            metrics_auth="none",
            tls_cert_file=None,
            tls_key_file=None,
            webhook_listen="",
            sandbox=False,
            leader_elect=own,
            leader_elect_plugins=(start.plugin,) if own else (),
        )
        configuration = _of_process(start.configuration, start.plugin)
        super().__init__(settings, [start.source or start.plugin], configuration=configuration)
        self.runtime: PluginRuntime = self.plugins[0]
        self.runtime.install = self._install
        self.runtime.logs_states = False
        self.state.metrics = of_child(self.runtime)
        #: Set when something changed that the other host shows.
        self.changed = threading.Event()
        self.state.pauses = Pauses(start.pauses, start.controllers)
        self._start = start
        self._channel = channel
        self._tenure = Tenure(SystemClock())
        self._leader = ""
        self._elects = False
        self._numbers = itertools.count(1)
        self._answers: dict[int, Future[str]] = {}
        #: The last request for the health checks, and those that run because of one.
        self._probe = 0
        self._awaited: set[Future[None]] = set()
        self._waiting: Callable[[str], None] = lambda _reason: None

    def connect(self, kubeconfig: str | None) -> None:
        """Use the API server of this kubeconfig; None for that of the settings."""
        if kubeconfig is not None:
            self.state.settings = with_settings(self.settings, kubeconfig=kubeconfig, context=None)
            # For the other clients of the plugin.
            os.environ["KUBECONFIG"] = kubeconfig

    def reload(self, configuration: Configuration) -> None:
        """Take over what has changed in the configuration of the other host."""
        apply(self.state, _of_process(configuration, self.runtime.name))

    def lead(self, message: messages.Lead) -> None:
        """Follow the leadership of the other host, until the drain has ended."""
        if self._stopped:
            return
        before = self._tenure.current
        self._leader, self._elects = message.leader, message.elects
        self._tenure.follow(message.number, message.until)
        if (before.number, before.until) != (message.number, message.until):
            self.runtime.wake()

    def answered(self, message: messages.Done) -> None:
        """Pass on the answer to a request."""
        self._answers.pop(message.request).set_result(message.problem)

    def waits(self, message: messages.Waits) -> None:
        """Pass on why a request is not done yet."""
        self._waiting(message.reason)

    def _ask(self, request: Callable[[int], object]) -> None:
        """Send a request, and wait until it is done; CtrlhostError with the reason if it cannot be."""
        number = next(self._numbers)
        answer = self._answers[number] = Future()
        self._channel.send(request(number))
        if problem := answer.result():
            raise CtrlhostError(problem)

    def _install(
        self,
        _client: Client,
        crds: list[dict[str, Any]],
        stop: threading.Event,
        waiting: Callable[[str], None],
        _installation: Installation,
        objects: list[dict[str, Any]],
    ) -> bool:
        plugin = self.runtime.plugin
        version = plugin.version if plugin is not None else ""
        self._waiting = waiting
        self._ask(lambda number: messages.Install(number, crds, objects, version))
        return not stop.is_set()

    def _make_factory(self, client: Client) -> InformerFactory:
        from ctrlhost.host.fed_factory import FedFactory
        from ctrlhost.informers import Compressions, ReflectorOptions

        return FedFactory(
            client,
            self._start.feed,
            resync=self.settings.resync,
            clock=self.clock,
            # The memory budget is that of the host, which reads less for everyone; `memory_limit` bounds the process.
            options=ReflectorOptions(
                # The feed ends its watches when the host's own informer was.
                restorable=False,
                max_object=self.configuration.informers.max_object,
                compressions=Compressions(*self.configuration.compressions),
            ),
            send=self._channel.send,
            ask=self._ask,
        )

    def _make_shards(self, client: Client, factory: InformerFactory) -> None:
        """Return None: the controllers of an isolated plugin are not sharded."""

    def _services_of(self, runtime: PluginRuntime, services: PluginServices) -> PluginServices:
        if self.leadership is not None:
            return super()._services_of(runtime, services)
        candidacy = Candidacy(
            self._tenure,
            elects=self._elects,
            leader=lambda: self._leader,
            join=self._synced,
        )
        return replace(services, candidacy=candidacy)

    def _synced(self) -> None:
        self._channel.send(messages.Synced())

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait until a condition holds after a change of the plugin's state or `woken`, or for a while."""
        with self._changes:
            self._changes.wait_for(condition, timeout)

    def woken(self) -> None:
        """End waits whose conditions hold now."""
        super()._notify()

    def _notify(self) -> None:
        super()._notify()
        self.changed.set()

    def _enabled_plugins(self) -> tuple[str, ...]:
        return self._start.plugins

    def _on_election(self, plugins: Collection[str]) -> None:
        super()._on_election(plugins)
        self.changed.set()

    def _start_servers(self) -> None:
        """Answer the other host's requests for metrics, queues and pages."""
        self._servers.serve_host(self._start.pages, self.inspection)

    def _log_addresses(self) -> None:
        """Log nothing: only the other host asks here."""

    def probe(self, number: int) -> None:
        """Begin to call the plugin's health checks; this number and their ends are in the next beats."""
        for check in self._health_checks():
            ends = check.start()
            # One that hangs is asked for again and again.
            if ends not in self._awaited:
                self._awaited.add(ends)
                ends.add_done_callback(self._probed)
        self._probe = number
        self.changed.set()

    def _probed(self, ends: Future[None]) -> None:
        self._awaited.discard(ends)
        self.changed.set()

    def _health_checks(self) -> list[PluginCheck]:
        context = self.runtime.context
        return list(context.health_checks) if context is not None else []

    def beat(self) -> messages.Beat:
        """Return what the other host shows of the plugin."""
        runtime = self.runtime
        # In this order: a check that has ended since is in the next beat.
        probe = self._probe
        return messages.Beat(
            runtime.state,
            runtime.reason,
            is_final(runtime.error),
            runtime.error is None,
            (*runtime.checks()[1:], *(self.state.webhooks.checks(runtime.name) if self.state.webhooks else ())),
            tuple(self.leadership.checks()) if self.leadership is not None else (),
            tuple(check.state() for check in self._health_checks()),
            probe,
            runtime.entries.degradations(),
        )


def _of_process(configuration: Configuration, plugin: str) -> Configuration:
    # The host that started this process restarts the plugin, in another one.
    return configuration.supervised(plugin, process="shared", restart_limit=0)


class Child:
    """Runs a ChildHost as the other host says. `run` belongs to the main thread."""

    def __init__(self, start: messages.Start, channel: Channel) -> None:
        """Prepare."""
        self._channel = channel
        self._host = ChildHost(start, channel)
        self._may_set_up, self._may_run = threading.Event(), threading.Event()
        self._with_crds: bool | Literal["force"] = False
        self._drain: messages.Drain | None = None
        timeout = start.configuration.supervision(start.plugin).heartbeat_timeout
        self._period = min(_HEARTBEAT, float(timeout) / 4)
        #: When the drain ends, by time.monotonic.
        self._drained_by = 0.0
        for name, body in (("control", self._receive), ("heartbeat", self._beat)):
            threading.Thread(target=body, name=name, daemon=True).start()

    def run(self) -> int:
        """Run the plugin until the other host drains it, or it has failed; return the exit code."""
        host = self._host
        try:
            self._live()
        except _Over:
            pass
        except (ConfigError, PluginNotFound) as error:
            self._channel.send(messages.Mistake(error.message, error.hint))
            host.stop(0)
            return _MISTAKE
        except Exception:
            log.exception("the process of plugin %s ends", host.runtime.name)
            host.stop(0)
            return _FAILED
        drain = self._drain
        complete = host.stop(max(0.0, self._drained_by - time.monotonic()) if drain is not None else _FAILED_DRAIN)
        # Why it has failed, if that is so.
        self._channel.send(host.beat())
        self._channel.send(messages.Drained(complete))
        if drain is None:
            return _FAILED
        return _MEMORY if drain.memory else _STOPPED

    def _live(self) -> None:
        host, runtime = self._host, self._host.runtime
        host.prepare()
        self._channel.send(messages.Configured())
        self._wait(self._may_set_up)
        host.set_up()
        if runtime.attempt is not None:
            self._wait(runtime.attempt.set_up, _SET_UP)
        host.serve()
        pages = tuple(runtime.context.pages) if runtime.context is not None else ()
        webhooks = host.state.webhooks.routes() if host.state.webhooks is not None else ()
        self._channel.send(messages.IsSetUp(pages, tuple(runtime.controller_names or ()), webhooks))
        self._wait(self._may_run)
        host.begin(with_crds=self._with_crds)
        self._wait(threading.Event())

    def _wait(self, event: threading.Event, period: float = _PERIOD) -> None:
        """Wait for an event; _Over if the plugin has failed or is to stop first.

        Messages and changes of the plugin's state end the wait at once, other events after a `period`.
        """

        def over() -> bool:
            return self._drain is not None or self._host.runtime.failed

        while not event.is_set() and not over():
            self._host.wait_for(lambda: event.is_set() or over(), period)
        if over():
            raise _Over

    def _receive(self) -> None:
        while (message := self._channel.receive()) is not None:
            match message:
                case messages.Lead():
                    self._host.lead(message)
                case messages.SetUp(kubeconfig):
                    self._host.connect(kubeconfig)
                    self._may_set_up.set()
                case messages.Run(with_crds):
                    self._with_crds = with_crds
                    self._may_run.set()
                case messages.Probe(number):
                    self._host.probe(number)
                case messages.Done():
                    self._host.answered(message)
                case messages.Waits():
                    self._host.waits(message)
                case messages.LogLevel():
                    levels.set(message.loggers, message.level, message.seconds)
                    if message.number:
                        self._channel.send(messages.Acted(message.number, 200, b""))
                case messages.Reload(configuration):
                    self._host.reload(configuration)
                case messages.Act():
                    threading.Thread(target=self._act, args=(message,), name="admin", daemon=True).start()
                case messages.Drain(seconds):
                    self._drained_by = time.monotonic() + seconds
                    self._drain = message
            self._host.woken()
        # Nothing more may be sent: another host may run the plugin by now.
        os._exit(_ABANDONED)

    def _act(self, message: messages.Act) -> None:
        answer = Admin(self._host.state).act(message.action, message.body, message.by)
        self._channel.send(messages.Acted(message.number, *answer))

    def _beat(self) -> None:
        while True:
            self._host.changed.wait(self._period)
            self._host.changed.clear()
            if not self._channel.send(self._host.beat()):
                os._exit(_ABANDONED)


class _Over(Exception):
    """The plugin has failed, or is to stop."""


def main() -> int:
    """Run the plugin that the other end of the control socket names; return the exit code."""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])), of_process=True)
    _core.end_with(channel.fileno(), _ABANDONED)
    # The other host decides; these reach all processes of a terminal, or of a service. Programs that the plugin starts
    # would inherit SIG_IGN, but no handler.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    start = channel.receive()
    if not isinstance(start, messages.Start):
        return _ABANDONED
    sys.path[:] = start.path
    os.environ.pop("PYTHONPATH", None)
    if start.python_path is not None:
        os.environ["PYTHONPATH"] = start.python_path

    from ctrlhost.host import logs

    settings = start.settings
    supervision = start.configuration.supervision(start.plugin)
    logs.configure(
        settings.log_level,
        settings.log_format,
        plugins=[start.plugin],
        log_lines=lambda _plugin: supervision.log_lines,
        log_levels=settings.log_levels,
        process_of=start.plugin,
    )
    for change in start.log_levels:
        levels.set(change.loggers, change.level, change.seconds)
    try:
        with switching_after(settings.switch_interval):
            return Child(start, channel).run()
    finally:
        logs.end()


if __name__ == "__main__":
    from ctrlhost.host.gil_watch import leave

    leave(main())
