"""The shards of a host: its membership in the fleet, and the thread that follows the map."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.cache import DeletedFinalStateUnknown
from ctrlhost.controller.sentences import counted
from ctrlhost.coordination.fleet import FLEET, Fleet
from ctrlhost.coordination.lease import API_VERSION
from ctrlhost.coordination.map_store import MapStore
from ctrlhost.coordination.membership import Membership
from ctrlhost.coordination.ownership import Ownership, Phase, SharedKeys, Span, spans
from ctrlhost.coordination.rollout import partial
from ctrlhost.coordination.shards import Shards
from ctrlhost.health import Check
from ctrlhost.host.shard_caches import ShardCaches

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.config.shard_settings import ShardSettings
    from ctrlhost.controller.controller import Controller
    from ctrlhost.informers import InformerFactory
    from ctrlhost.request import Request
    from ctrlhost.supervisor.runtime import PluginRuntime

log = logging.getLogger("ctrlhost.shards")

#: Seconds between two steps: at rest, and while a range closes whose writes are not in the caches yet.
_PAUSE, _CLOSING = 0.5, 0.05
_STOP_TIMEOUT = 5.0


class HostShards:
    """This replica's part in the shards of its plugins' controllers. Callable from any thread."""

    def __init__(
        self,
        plugins: Sequence[PluginRuntime],
        settings: ShardSettings,
        host: HostSettings,
        client: Client,
        factory: InformerFactory,
        clock: Clock,
    ) -> None:
        """Prepare without a request."""
        times = host.leader_election()
        self.namespace = host.leader_elect_resource_namespace or client.namespace
        self._settings = settings
        self._host = host
        self._plugins = plugins
        self._factory = factory
        self.clock = clock
        # Renewals never wait for the requests of plugins.
        self._client = client.separate().derive(field_manager="ctrlhost-shards")
        self.membership = Membership(
            self._client, self.namespace, settings.name, clock, times, changed=self._term_changed
        )
        self.fleet = Fleet(self._client, self.namespace, settings.name, clock, times, self.membership.name)
        self.store = MapStore(self._client, self.namespace, settings.name, times.request_timeout)
        caches = ShardCaches(factory, plugins)
        #: What has opened, and what was lost, of which the plugins do not know yet.
        self._opened: deque[Span] = deque()
        self._lost: deque[Span] = deque()
        self._wake = threading.Event()
        self.ownership = Ownership(
            clock, caches.holds, opened=self._opens, lost=self._lost.append, drained=self._wake.set
        )
        self.shards = Shards(
            self.membership,
            self.fleet,
            self.store,
            self.ownership,
            caches,
            clock,
            min_members=settings.min_members,
            hashes=self._hashes,
            moved=self._tell,
        )
        #: What the controllers use.
        self.keys = SharedKeys(self.ownership, self.membership.tenure, self.whose)
        self._stop = threading.Event()
        self._leaving = False
        self._joined = False
        #: Whether the log has said that nothing is shared.
        self._idle = False
        self._thread = threading.Thread(target=self._run, name="shards", daemon=True)

    def start(self) -> None:
        """Watch the Leases of the fleet, and join it when the plugins have synced."""
        for plugin in self._plugins:
            if plugin.isolated:
                log.warning(
                    "plugin %s has a process of its own: its controllers are not sharded, and run on the leader",
                    plugin.name,
                )
        self._factory.ranges.on_filled = self._wake.set
        self._watch()
        self._thread.start()

    def _watch(self) -> None:
        def seen(lease: Any) -> None:
            state = lease.to_dict()
            for part in (self.membership, self.fleet, self.store):
                part.seen(state)
            self._wake.set()

        def removed(last: Any) -> None:
            lease = last.object if isinstance(last, DeletedFinalStateUnknown) else last
            if lease is not None:
                state = lease.to_dict()
                for part in (self.membership, self.fleet, self.store):
                    part.removed(state)
            self._wake.set()

        selector = f"{FLEET}={self._settings.name}"
        leases = self._factory.informer(API_VERSION, "Lease", namespaces=[self.namespace], label_selector=selector)
        leases.add_handler(lambda lease, _: seen(lease), lambda _, lease: seen(lease), removed, name="shards")
        self._factory.start()

    def _term_changed(self) -> None:
        """Renew the ranges with the membership at once: the next step may wait for a request."""
        if (standing := self.membership.standing()) is not None:
            self.ownership.renew(*standing)
        for plugin in self._plugins:
            plugin.wake()
        self._wake.set()

    def wake(self) -> None:
        """Look at once whether something is due."""
        self._wake.set()

    # ---- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._joined and self._may_join():
                    self._joined = True
                    self.membership.elector.start()
                if self._joined:
                    self._step()
            except Exception:
                log.exception("shards: a step failed")
            self.clock.wait(self._wake, self._pause())
            self._wake.clear()

    def _pause(self) -> float:
        closing = [span for span, phase in self.ownership.phases().items() if phase is Phase.CLOSING]
        return _CLOSING if any(not self.ownership.running(span) for span in closing) else _PAUSE

    def _may_join(self) -> bool:
        """Return whether this replica joins: all plugins are set up, and some share keys."""
        if not all(plugin.settled() for plugin in self._plugins):
            return False
        self._declare()
        if not self.shards.shard_by and not self._idle:
            self._idle = True
            log.warning(
                "shards: no controller here shares its keys: all run on the leader "
                "(hint: say `shard_by` in the plugin or in [controllers], or use --leader-elect)"
            )
        return bool(self.shards.shard_by) and self.shards.may_join()

    def _declare(self) -> None:
        """Add the sharded controllers to the protocol's; those of a plugin that restarts are still known."""
        self.shards.shard_by = {
            **self.shards.shard_by,
            **{controller.name: str(controller.options.shard_by) for controller in self.controllers()},
        }
        self.membership.declare(self.shards.shard_by)

    def _step(self) -> None:
        self._declare()
        self._announce()
        self.shards.step()
        self._tell()

    def _tell(self) -> None:
        """Notify the plugins of what has opened and what was lost."""
        opened = [self._opened.popleft() for _ in range(len(self._opened))]
        lost = [self._lost.popleft() for _ in range(len(self._lost))]
        if opened or lost:
            log.info("shards: %s opened here, %s went; %s", counted(len(opened), "range"), len(lost), self.summary())
        for plugin in self._plugins if opened or lost else ():
            plugin.moved(opened, lost)

    def _opens(self, span: Span) -> None:
        """Hold the runs of a range until its plugins have been told and its objects are queued; `_tell` does both."""
        for controller in self.controllers():
            controller.opening(span)
        self._opened.append(span)

    def _announce(self) -> None:
        """Declare whether this replica leaves: it stops, or a plugin that shares keys has failed for good here."""
        sharded = {name.partition("/")[0] for name in self.shards.shard_by}
        failed = [plugin.name for plugin in self._plugins if plugin.name in sharded and plugin.state == "failed"]
        leaves = self._leaving or bool(failed) or bool(self.shards.problem)
        if leaves != self.membership.leaving:
            if failed:
                log.warning("shards: this replica leaves, since plugin %s has failed here", ", ".join(failed))
            self.membership.leave(leaves)

    def _hashes(self) -> Collection[int]:
        """Return the hashes of the namespaces that the host reads."""
        limit = self._host.namespaces
        if limit and not any(set(entry) & set("*?[]!:") for entry in limit):
            return {_core.shard_hash(name) for name in limit}
        namespaces = self._client.list("v1", "Namespace")
        return {_core.shard_hash(namespace["metadata"]["name"]) for namespace in namespaces}

    # ---- the end ---------------------------------------------------------------------------------------------------

    def hand_over(self, timeout: float | None = None) -> None:
        """Ask the other members to take the ranges, and wait; at most `timeout` seconds, or `handover_timeout`."""
        if not self._joined:
            self._end_thread()
            return
        self._leaving = True
        self._wake.set()
        deadline = time.monotonic() + (float(self._settings.handover_timeout) if timeout is None else timeout)
        pause = threading.Event()
        while (
            self.ownership.phases()
            and self.shards.awaits_takers()
            and self.shards.others_live(staying=True)
            and time.monotonic() < deadline
            and self.membership.tenure.term is not None
        ):
            pause.wait(_CLOSING)
        self._end_thread()
        if (left := self.ownership.phases()) and self.shards.others_live(staying=True):
            log.warning("shards: %d ranges were not taken in time; they are closed now", len(left))
            self.ownership.close()

    def _end_thread(self) -> None:
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT)

    def stop(self, *, drained: bool) -> None:
        """Leave the fleet; after a drain at once, else when the Lease has expired."""
        self._end_thread()
        if not self.membership.elector.stop(_STOP_TIMEOUT, release=drained):
            log.warning("lease %s/%s not released in time; it will expire", self.namespace, self.membership.name)
        self._client.close()

    # ---- what is shown ---------------------------------------------------------------------------------------------

    def check(self) -> Check:
        """Return the line of this replica's part in a health report."""
        if not self.shards.shard_by and not self.controllers():
            return Check("shards", passed=True, detail="no controller here shares its keys")
        problem = self.shards.unready()
        if self._settings.require_server_filter and (kinds := self._factory.ranges.unfiltered()):
            problem = f"shards: the API server does not filter {', '.join(kinds)} (hint: feature ShardedListAndWatch)"
        texts = [problem.removeprefix("shards: "), self.summary()]
        if not problem and (awaited := self.shards.awaited):
            texts.append(f"waits for {counted(awaited, 'range')}")
        for name, share in self.partial().items():
            texts.append(f"{name} runs for {share:.0%} of the objects: not every member has it yet")
        return Check("shards", passed=not problem, detail="; ".join(filter(None, texts)))

    def whose(self, line: str, place: int) -> str:
        """Return in words whose range a hash on a line is in."""
        shards = self.store.shards
        if shards is None:
            return "there is no shard map yet"
        for span, number in spans(shards):
            if span.covers(line, place):
                entry = shards.lines[line][number]
                owner = entry.owner.lease if entry.owner is not None else "nobody"
                here = self.ownership.phases().get(span)
                parts = [f"{owner} owns its range {span.start:016x} of {line}"]
                parts += [f"this replica: {here.value}"] if here is not None else []
                parts += [f"claimed by {entry.claimant.lease}"] if entry.claimant is not None else []
                return ", ".join(parts)
        return f"the shard map has no line {line} yet"

    def controllers(self) -> list[Controller]:
        """Return the controllers whose keys replicas share."""
        controllers = [controller for plugin in self._plugins for controller in plugin.controllers]
        return [controller for controller in controllers if controller.sharded]

    def running_keys(self, span: Span) -> list[Request]:
        """Return the keys in a range that run now."""
        keys = []
        for controller in self.controllers():
            gate = controller.shards
            if gate is not None and gate.line == span.line:
                running = [run.key for run in controller.running()]
                keys += [key for key in running if (at := gate.place(key)) is not None and span.start <= at < span.end]
        return keys

    def stuck(self) -> list[Span]:
        """Return the ranges that another replica waits for longer than `drain_timeout`, since a run lasts."""
        return self.shards.closing_for(float(self._host.drain_timeout))

    def partial(self) -> dict[str, float]:
        """Return the controllers here that other members lack, each with the part of the objects that it runs for."""
        if self.store.shards is None:
            return {}
        members = {seen.incarnation: seen.controllers for seen in self.fleet.held()}
        return partial(self.store.shards, members, self.shards.shard_by)

    def summary(self) -> str:
        """Return the part of this replica in one line."""
        shards = self.store.shards
        total = sum(map(len, shards.lines.values())) if shards is not None else 0
        return (
            f"{self.membership.name} has {len(self.ownership.phases())} of {counted(total, 'range')}, "
            f"{self.share():.0%} of {counted(len(self.fleet.members()), 'member')}"
        )

    def share(self) -> float:
        """Return the part of the weight that this replica owns, from 0 to 1."""
        shards, me = self.store.shards, self.membership.incarnation
        entries = [entry for line in shards.lines.values() for entry in line] if shards is not None else []
        total = sum(entry.weight for entry in entries)
        return sum(entry.weight for entry in entries if entry.owner == me) / total if total else 0.0
