"""The pending work of a host under test."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.errors import Stale
from ctrlhost.own_writes.overlay import PendingWrites
from ctrlhost.reflector.reflector import NO_PERMISSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.controller.controller import Controller
    from ctrlhost.events.recorder import EventRecorder
    from ctrlhost.host.host import Host
    from ctrlhost.informers import Informer
    from ctrlhost.plugin.task import Task
    from ctrlhost.testing.real_server import RealServer

#: Without a sandbox nothing may have happened for so many seconds: events of others may be on their way.
_QUIET = 0.2
#: Seconds until informers of a real server are woken that failed to list or to watch.
_PATIENCE = 0.5
#: What is reported if nothing is pending, but something happened while the parts were looked at.
CHANGED = "something changed during the check"
#: How the names of reflectors' threads begin.
_REFLECTOR = "reflector "


class Versions(Protocol):
    """What tells whether informers have everything that the server has."""

    def behind(self, informer: Informer) -> str:
        """Return what an informer lacks, empty if nothing."""

    def stamp(self) -> object:
        """Return a value that changes whenever the server's content changes, as far as is known."""

    def pending(self) -> list[str]:
        """Return the pending work of the server, as far as is known."""

    @property
    def quiet(self) -> float:
        """The seconds for which nothing may have changed."""


class SandboxVersions:
    """The versions of a sandbox, which tells them."""

    quiet = 0.0

    def __init__(self, sandbox: Sandbox) -> None:
        """Ask `sandbox`."""
        self._sandbox = sandbox

    def behind(self, informer: Informer) -> str:
        """Return what an informer lacks, empty if nothing."""
        newest = self._sandbox.revision(informer.api_version, informer.kind)
        seen = informer.last_resource_version
        if informer.has_synced and seen and int(seen) >= newest:
            return ""
        return f"at version {seen or 'none'} of {newest}"

    def stamp(self) -> object:
        """Return nothing: what its informers have not seen is behind."""
        return None

    def pending(self) -> list[str]:
        """Return the pending work of the sandbox's controllers."""
        self._sandbox.send_bookmarks()
        return [] if self._sandbox.at_rest else ["the controllers of the sandbox are busy"]


class WrittenVersions:
    """The versions that host and test wrote on a server that tells nothing."""

    quiet = _QUIET

    def __init__(self, server: RealServer) -> None:
        """Compare with what the test and its hosts wrote there."""
        self._server = server

    def behind(self, informer: Informer) -> str:
        """Return what an informer lacks, empty if nothing."""
        if not informer.has_synced:
            return "it has not synced"
        pending, group = PendingWrites(informer), informer.api_version.rpartition("/")[0]
        plural = f"{informer.resource}.{group}" if group else informer.resource
        for record in self._server.records:
            for write in record.last():
                if write.resource != plural:
                    continue
                if write.deleted:
                    pending.deleted((write.namespace, write.name), write.uid)
                else:
                    pending.wrote(write.answer)
        keys = pending.behind(None)
        return f"it has not seen the write of {keys[0]}" if keys else ""

    def stamp(self) -> object:
        """Return the number of requests so far."""
        return tuple(record.count for record in self._server.records)

    def pending(self) -> list[str]:
        """Return nothing: the server does not tell."""
        return []


class PendingWork:
    """Reads what a host has to do at its clock's current time."""

    def __init__(self, host: Host, versions: Versions) -> None:
        """Read `host`, on the server of `versions`."""
        self._host = host
        self._versions = versions
        self._quiet_since: tuple[Any, float] = (None, 0.0)
        #: When informers were woken last, in seconds of `time.monotonic`.
        self._woken = time.monotonic()

    def lines(self) -> list[str]:
        """Return the pending work; empty if all parts were idle at the same moment."""
        before = self.stamp()
        # Twice: the second look finds work that a thread began in a part that the first had already passed.
        busy = self._look() or self._look()
        if not busy and self.stamp() != before:
            return [CHANGED]
        return busy or self._unquiet(before)

    def waking(self) -> list[str]:
        """Return the informers that wait for a kind that the server has begun to serve, and so will not wait long."""
        client = self._host.client
        if client is None:
            return []
        reasons = []
        for informer in self.informers():
            if informer.state != "waiting" or informer.reason.startswith(NO_PERMISSION):
                continue
            try:
                client.resource(informer.api_version, informer.kind)
            except Exception:  # noqa: BLE001, S112 - it goes on waiting
                continue
            reasons.append(f"informer {informer.key}: its kind is served now")
        return reasons

    def due(self) -> list[tuple[str, float]]:
        """Return tasks, timers and restarts of plugins, and resyncs and back-offs of informers, each with its time."""
        plugins, now = self._host.plugins, self._host.clock.now()
        restarts = [(plugin.name, wait) for plugin in plugins if (wait := plugin.restarts_in()) is not None]
        resync = math.inf if self._host.factory is None else self._host.factory.resyncer.due_at
        return [
            *((f"task {task.name}", task.due_at) for task in self.tasks() if task.due_at < math.inf),
            *(
                (f"a timer of {controller.name}", at)
                for controller in self.controllers()
                if (at := _timer(controller)) < math.inf
            ),
            *((f"the restart of plugin {name}", now + wait) for name, wait in restarts),
            *([("a resync", resync)] if resync < math.inf else []),
            *self._back_offs(),
        ]

    def _back_offs(self) -> list[tuple[str, float]]:
        """Return the reflectors that a manual clock wakes, each with the time."""
        deadlines: list[tuple[str, float]] = getattr(self._host.clock, "deadlines", list)()
        return [(name, at) for name, at in deadlines if name.startswith(_REFLECTOR)]

    def wake(self) -> None:
        """On a real server let informers list or watch again now, at most twice a second.

        Such a server refuses a kind that is new for a while, and a manual clock does not let that be tried again.
        """
        now = time.monotonic()
        if self._versions.quiet and now - self._woken >= _PATIENCE:
            self._woken = now
            for informer in self.informers():
                informer.wake()

    def backing_off(self) -> bool:
        """Return whether an informer waits for a manual clock to list or watch again."""
        now = self._host.clock.now()
        reconnecting = any(informer.state in ("listing", "reconnecting") for informer in self.informers())
        return reconnecting and any(at > now for _, at in self._back_offs())

    def overdue(self) -> list[str]:
        """Return the periodic tasks that run, and what is due by the clock."""
        due, now = self.due(), self._host.clock.now()
        return [f"{name} is due" for name, at in due if at <= now]

    def tasks(self) -> Iterator[Task]:
        """Return the tasks of the host's plugins."""
        contexts = [plugin.context for plugin in self._host.plugins]
        return (task for context in contexts if context is not None for task in context.tasks)

    def elections(self) -> list[str]:
        """Return the leases of running plugins that this replica has not looked at yet, so that it may lead soon."""
        running = {plugin.name for plugin in self._host.plugins if plugin.state == "running"}
        leases = self._host.leadership.leases() if self._host.leadership is not None else ()
        return [
            f"lease {lease.name}: the election has no result yet"
            for lease in leases
            if lease.renewed is None and not lease.mine and running.intersection(lease.plugins)
        ]

    def shards(self) -> list[str]:
        """Return what this replica waits for until it has its part of the keys."""
        shards = self._host.state.shards
        if shards is None:
            return []
        opening = [
            controller.name for controller in shards.controllers() if controller.shards and controller.shards.holds
        ]
        waits = [f"controller {name}: a range opens" for name in opening]
        return waits if (check := shards.check()).passed else [f"shards: {check.detail}", *waits]

    def informers(self) -> list[Informer]:
        """Return the informers of the host."""
        return list(self._host.factory.informers()) if self._host.factory is not None else []

    def controllers(self) -> Iterator[Controller]:
        """Return the controllers of the host's plugins."""
        return (controller for plugin in self._host.plugins for controller in plugin.controllers)

    def _unquiet(self, stamp: Any) -> list[str]:
        if not self._versions.quiet:
            return []
        now = time.monotonic()
        if self._quiet_since[0] != stamp:
            self._quiet_since = (stamp, now)
        quiet = now - self._quiet_since[1]
        return [] if quiet >= self._versions.quiet else [f"quiet for {quiet:.1f} s only"]

    def stamp(self) -> tuple[Any, ...]:
        """Return a value that changes whenever anything happens."""
        seen = (informer.last_resource_version for informer in self.informers())
        runs = (controller.status().runs for controller in self.controllers())
        return self._versions.stamp(), *seen, *runs

    def _look(self) -> list[str]:
        """Return the pending work, in the order in which one part passes it on to the next."""
        return self._lagging() or self._working()

    def _lagging(self) -> list[str]:
        lines = self._versions.pending()
        for informer in self.informers():
            if informer.state in ("waiting", "stopped"):
                continue
            if informer.has_synced and not informer.parts:
                # It follows namespaces, and none is selected.
                continue
            behind = self._versions.behind(informer)
            if not (behind or all(part.reflector.status.lists for part in informer.parts)):
                # A namespace that was selected just now has no version with which writes could be compared.
                behind = "the first list of a namespace is not complete"
            if behind:
                lines.append(f"informer {informer.key}: {informer.state}, {behind}: {informer.reason}".rstrip(": "))
        return lines

    def _working(self) -> list[str]:
        lines = [
            f"plugin {plugin.name}: {plugin.state} {plugin.reason}".rstrip()
            for plugin in self._host.plugins
            if not plugin.settled()
        ]
        lines += [
            f"informer {informer.key}: {pending} notifications for handlers in Python"
            for informer in self.informers()
            if (pending := informer.pending)
        ]
        lines += [f"informer {informer.key}: {lag}" for informer in self.informers() for lag in _index_lags(informer)]
        lines += [busy for controller in self.controllers() if (busy := controller.busy())]
        recorder: EventRecorder | None = self._host.events
        if recorder is not None and not recorder.idle():
            lines.append("events are being written")
        return lines


def _timer(controller: Controller) -> float:
    """Return when the next round of a timer of a controller that works is due."""
    return min((attachment.due_at for attachment in controller.attachments if controller.working), default=math.inf)


def _index_lags(informer: Informer) -> Iterator[str]:
    """Return which indexes lack objects of the cache. A read waits for the function of an index, for up to 2 s."""
    for indexer in [part.engine.indexer for part in informer.parts]:
        for name in indexer.indexers:
            try:
                indexer.index_keys(name, "")
            except Stale as error:
                yield str(error)
            except KeyError:
                # Its plugin has removed it meanwhile.
                continue
