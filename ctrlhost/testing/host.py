"""A host for tests: plugins on a sandbox, with a clock and faults that the test controls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ctrlhost.client import Client
from ctrlhost.clock import SystemClock
from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from ctrlhost.testing.faults import Faults, FaultyTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ctrlhost.clock import Clock
    from ctrlhost.controller.controller import Controller
    from ctrlhost.events.recorder import EventRecorder
    from ctrlhost.sandbox import Sandbox
    from ctrlhost.testing.fault_proxy import FaultProxy
    from ctrlhost.testing.least_privilege import LimitedAccount

#: Default timeout of waits, in real seconds.
IDLE_TIMEOUT = 30.0


class NotIdle(AssertionError):
    """The host was not idle in time; the message lists its pending work."""


class HostUnderTest:
    """A running host. The test acts through `client`, as a user of the cluster would. For use by one thread."""

    def __init__(
        self,
        sandbox: Sandbox,
        plugins: tuple[object, ...],
        *,
        clock: Clock | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        controllers: Mapping[str, Mapping[str, Any]] | None = None,
        supervision: Mapping[str, Any] | None = None,
        informers: Mapping[str, Any] | None = None,
        through: FaultProxy | None = None,
        least_privilege: bool = False,
        **host_settings: Any,
    ) -> None:
        """Prepare; `start` runs it. `settings`, `controllers`, `supervision` and `informers` are tables of a settings
        file.

        If given, `through` is a proxy in front of the sandbox for the host's requests, never for the test's own.
        With `least_privilege` the host has a service account with exactly the rights that `ctrlhost manifests` prints
        for these plugins, whose CRDs are installed for it; ValueError unless the sandbox has `rbac=True`.
        """
        self.sandbox = sandbox
        self.clock: Any = clock or SystemClock()
        self.faults = Faults()
        #: The test's own client, an administrator's; no fault hits it.
        self.client = Client.load(sandbox.kubeconfig)
        tree = {
            "host": {"listen": "", **host_settings},
            "plugins": {name: dict(table) for name, table in (settings or {}).items()},
            "controllers": {name: dict(table) for name, table in (controllers or {}).items()},
            "supervision": dict(supervision or {}),
            "informers": dict(informers or {}),
        }
        configuration = Configuration(tree, "")
        host_tables = configuration.host() if host_settings else HostSettings(listen="")
        kubeconfig = (through or sandbox).kubeconfig
        #: The host's service account with `least_privilege`.
        self.account: LimitedAccount | None = None
        if least_privilege:
            from ctrlhost.testing.least_privilege import account_of_plugins

            self.account = account_of_plugins(sandbox, self.client, plugins, configuration, host_tables)
            kubeconfig = self.account.kubeconfig if through is None else self.account.through(through.kubeconfig)
        transport = FaultyTransport(Client.load(kubeconfig).transport, self.faults)
        self.host = Host(
            host_tables,
            plugins,
            configuration=configuration,
            client=Client.over(transport, namespace=self.client.namespace),
            clock=self.clock,
            # A host with a sandbox installs CRDs, for which it has no right here.
            sandbox=None if least_privilege else sandbox,
        )

    def start(self, timeout: float = IDLE_TIMEOUT) -> HostUnderTest:
        """Start the host and wait until no plugin is syncing; NotIdle after `timeout` real seconds."""
        self.host.start()
        if not self.host.wait_ready(timeout):
            raise NotIdle(f"after {timeout:g} s: {self.host.plugins}")
        return self

    def stop(self, timeout: float = 10.0) -> bool:
        """Stop the host and return whether everything ended within `timeout` real seconds."""
        ended = self.host.stop(timeout)
        for client in (self.client, self.host.client):
            if client is not None:
                client.close()
        return ended

    def run_until_idle(self, timeout: float = IDLE_TIMEOUT) -> None:
        """Wait until the host has no work left at its clock's current time.

        The host is idle when the sandbox's controllers are idle, every informer has the newest version of its kind,
        handlers and queues are empty, no reconcile runs, and events are written. Delayed keys do not count: only the
        clock makes them due. Raises NotIdle with the pending work after `timeout` real seconds.
        """
        deadline, pause = time.monotonic() + timeout, 0.001
        while busy := self._busy():
            if time.monotonic() >= deadline:
                raise NotIdle(f"not idle after {timeout:g} s:\n" + "\n".join(f"  {line}" for line in busy))
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def wait_for(self, condition: Callable[[], Any], timeout: float = IDLE_TIMEOUT) -> Any:
        """Wait until `condition()` is true and return its value; NotIdle after `timeout` real seconds."""
        deadline = time.monotonic() + timeout
        while not (found := condition()):
            if time.monotonic() >= deadline:
                raise NotIdle(f"{condition} is not true after {timeout:g} s")
            time.sleep(0.005)
        return found

    def unused_rights(self) -> list[tuple[str, str, str]]:
        """Return the rights, as (group, resource, verb), that the host was granted and has not used so far.

        RuntimeError for a host that was not started with `least_privilege`.
        """
        if self.account is None:
            raise RuntimeError("the host was not started with `least_privilege=True`")
        return self.account.unused(self.sandbox)

    def events(self, namespace: str | None = None) -> list[dict[str, Any]]:
        """Return the events of the cluster, oldest first."""
        found = self.client.list("events.k8s.io/v1", "Event", namespace)
        return sorted(found, key=lambda event: (event.get("eventTime") or "", event["metadata"]["name"]))

    @property
    def controllers(self) -> dict[str, Controller]:
        """The controllers by name, as `plugin/name`."""
        return {one.name: one for plugin in self.host.plugins for one in plugin.controllers}

    def _busy(self) -> list[str]:
        """Return the pending work; empty if all parts were idle at the same moment."""
        before = self._stamp()
        busy = self._lagging() or self._working()
        if not busy and self._stamp() != before:
            return ["something changed during the check"]
        return busy

    def _stamp(self) -> tuple[Any, ...]:
        """Return a value that changes whenever anything happens."""
        seen = [
            (one.last_resource_version, self.sandbox.revision(one.api_version, one.kind)) for one in self._informers()
        ]
        return *seen, *(controller.status().runs for controller in self.controllers.values())

    def _lagging(self) -> list[str]:
        self.sandbox.send_bookmarks()
        lines = [] if self.sandbox.at_rest else ["the controllers of the sandbox are busy"]
        for informer in self._informers():
            if informer.state in ("waiting", "stopped"):
                continue
            if informer.has_synced and not informer.parts:
                # It follows namespaces, and none is selected.
                continue
            newest = self.sandbox.revision(informer.api_version, informer.kind)
            seen = informer.last_resource_version
            if not informer.has_synced or not seen or int(seen) < newest:
                lines.append(f"informer {informer.key}: {informer.state}, at version {seen or 'none'} of {newest}")
        return lines

    def _working(self) -> list[str]:
        lines = [
            f"plugin {plugin.name}: {plugin.state} {plugin.reason}".rstrip()
            for plugin in self.host.plugins
            if not plugin.settled()
        ]
        lines += [
            f"informer {informer.key}: {pending} notifications for handlers in Python"
            for informer in self._informers()
            if (pending := informer.pending)
        ]
        lines += [busy for controller in self.controllers.values() if (busy := controller.busy())]
        recorder: EventRecorder | None = self.host.events
        if recorder is not None and not recorder.idle():
            lines.append("events are being written")
        return lines

    def _informers(self) -> Iterator[Any]:
        if self.host.factory is not None:
            yield from self.host.factory.informers()
