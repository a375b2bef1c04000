"""One pass over the daemons of a network, so that each knows its peers and no other nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost_bitcoin.mesh.bounded_pool import BoundedPool
from ctrlhost_bitcoin.mesh.node_state import NodeState
from ctrlhost_bitcoin.mesh.nodes import reachable
from ctrlhost_bitcoin.mesh.observe import Observer, Task
from ctrlhost_bitcoin.mesh.targets import address, targets
from ctrlhost_bitcoin.rpc.errors import Closed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ThreadPoolExecutor

    import ctrlhost
    from ctrlhost_bitcoin.mesh.node_state import NetworkMemory, NodeKey
    from ctrlhost_bitcoin.mesh.nodes import Node
    from ctrlhost_bitcoin.model import Network
    from ctrlhost_bitcoin.rpc.client import RpcClient

#: Nodes of one network that are called at once.
_WIDTH = 8
#: Seconds until the next pass, when this one did not reach all nodes.
_NEXT_PASS = 1.0


@dataclass(frozen=True, slots=True)
class MeshReport:
    """The outcome of a pass, over the nodes that can be called."""

    ready: int
    converged: int
    #: Names of pods.
    unauthorized: tuple[str, ...]
    unreachable: tuple[str, ...]
    #: Failures to report, each with its reason.
    news: tuple[tuple[Node, str], ...]
    #: Seconds until the next pass; None if it takes an event.
    again: float | None


class Mesh:
    """Keeps meshes; one per plugin, called by the workers of all networks."""

    def __init__(self, client: RpcClient, pool: ThreadPoolExecutor, clock: ctrlhost.Clock, deadline: float) -> None:
        """Call daemons through `client` on the threads of `pool`; a pass takes at most `deadline` real seconds."""
        self._client, self._pool, self._clock, self._deadline = client, pool, clock, deadline

    def converge(
        self, ctx: ctrlhost.Context, network: Network, nodes: Sequence[Node], memory: NetworkMemory
    ) -> MeshReport | None:
        """Update the daemons' lists to the ready nodes, with no failure delaying others; None if it was cut short."""
        ready, twins = reachable(nodes)
        for node, other in twins:
            ctx.log.warning("%s has the IP of %s (%s): skipped", node.pod, other.pod, node.ip)
        states = self._states(nodes, ready, memory)
        observers = self._observe(ctx, network, nodes, ready, memory)
        news, late = [], False
        # Waits start after the calls, which took time.
        now = self._clock.now()
        for observer in observers:
            node, state = observer.task.node, states[observer.task.node.key]
            for what, addresses in (("added", observer.added), ("removed", observer.removed)):
                if addresses:
                    ctx.log.info("%s %s on %s", what, ", ".join(addresses), node.pod)
            if observer.planned != state.planned:
                state.planned = observer.planned
                ctx.log.info("dry run: would have %s: %s", node.pod, ", ".join(observer.planned) or "change nothing")
            if isinstance(observer.failure, Closed):
                return None
            if observer.failure is not None:
                ctx.log.debug("%s (%s): %s", node.pod, node.ip, observer.failure)
                if state.failed(observer.failure.reason, now):
                    news.append((node, observer.failure.reason))
            elif observer.done:
                state.accepted = observer.accepted
                state.succeeded(len(observer.task.targets), observer.connected, now, wrote=observer.wrote)
                state.converged = state.converged and not observer.stale
            else:
                state.converged, late = False, True
        if late and not _may_continue(ctx):
            return None
        own = [(node, states[node.key]) for node in ready]
        waits = [at - now for _, state in own if (at := state.wakes_at()) is not None]
        if late:
            waits.append(_NEXT_PASS)
        refusing = tuple(node.pod for node, state in own if state.reason == "Unauthorized")
        return MeshReport(
            ready=len(ready),
            converged=sum(state.converged for _, state in own),
            unauthorized=refusing,
            unreachable=tuple(node.pod for node, state in own if state.reported and node.pod not in refusing),
            news=tuple(news),
            again=max(min(waits), 0.01) if waits else None,
        )

    def _states(self, nodes: Sequence[Node], ready: Sequence[Node], memory: NetworkMemory) -> dict[NodeKey, NodeState]:
        """Return the states of the nodes, and forget pods that are gone."""
        kept = {node.key: memory.nodes[node.key] for node in nodes if node.key in memory.nodes}
        renewed = False
        for node in ready:
            state = kept.setdefault(node.key, NodeState())
            renewed = state.renew(node.containers, memory.credentials.revision) or renewed
        reachable_now = {node.key for node in ready}
        for key, state in kept.items():
            if renewed:
                # A restarted node lost its links though its peers still list it: dial it without a wait.
                state.dial_at, state.dial_wait = None, 0.0
            if key not in reachable_now:
                state.wanted = state.connected = 0
        memory.nodes = kept
        return kept

    def _observe(
        self,
        ctx: ctrlhost.Context,
        network: Network,
        nodes: Sequence[Node],
        ready: Sequence[Node],
        memory: NetworkMemory,
    ) -> list[Observer]:
        """Call the nodes that are due, until all are done or the deadline is over."""
        addresses = {node.ordinal: address(node.ip, network.p2p_port) for node in ready}
        members = frozenset(node.ip for node in nodes if node.ip)
        pool = BoundedPool(self._pool, _WIDTH, lambda: _may_continue(ctx))
        now, observers = self._clock.now(), []
        for node in ready:
            state = memory.nodes[node.key]
            if not state.due(now):
                continue
            candidates = memory.credentials.candidates(node.digest)
            if state.accepted in candidates:
                candidates = tuple(dict.fromkeys((state.accepted, *candidates)))
            task = Task(
                node=node,
                candidates=candidates,
                rpc_port=network.rpc_port,
                p2p_port=network.p2p_port,
                targets=targets(node.ordinal, network.nodes, addresses),
                members=members,
                dial=state.dials(now),
                dry_run=ctx.dry_run,
            )
            state.wanted = len(task.targets)
            observers.append(Observer(self._client, pool, task))
        for observer in observers:
            pool.add(observer.start)
        pool.wait(self._deadline)
        return observers


def _may_continue(ctx: ctrlhost.Context) -> bool:
    return ctx.leading and not ctx.stopping
