"""The mesh: one pass over the daemons of a network, so that each knows its peers and no one else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost_bitcoin.mesh.bounded_pool import Lanes
from ctrlhost_bitcoin.mesh.node_state import NodeState
from ctrlhost_bitcoin.mesh.nodes import reachable
from ctrlhost_bitcoin.mesh.observe import Look, Looker, Task
from ctrlhost_bitcoin.mesh.targets import address, targets
from ctrlhost_bitcoin.rpc.errors import Closed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ThreadPoolExecutor

    import ctrlhost
    from ctrlhost_bitcoin.mesh.memory import NetworkMemory, NodeKey
    from ctrlhost_bitcoin.mesh.nodes import Node
    from ctrlhost_bitcoin.objects.spec import NetworkSpec
    from ctrlhost_bitcoin.rpc.client import RpcClient

#: Nodes of one network that are called at once.
_WIDTH = 8
#: What was not looked at in this pass is looked at after so many seconds.
_NEXT_PASS = 1.0


@dataclass(frozen=True, slots=True)
class MeshReport:
    """What a pass found, by the nodes that can be called."""

    ready: int
    converged: int
    #: Names of the pods, by what is the matter with them.
    unauthorized: tuple[str, ...]
    unreachable: tuple[str, ...]
    #: Failures to report: the node, and the reason.
    news: tuple[tuple[Node, str], ...]
    #: Seconds until the next pass; None for when something happens.
    again: float | None
    #: The pass was broken off, so that nothing can be said.
    broken_off: bool = False


class Mesh:
    """Keeps meshes; one for the plugin, called by the workers of all networks."""

    def __init__(self, client: RpcClient, pool: ThreadPoolExecutor, clock: ctrlhost.Clock, deadline: float) -> None:
        """Call daemons through `client` on the threads of `pool`; a pass takes `deadline` real seconds at most."""
        self._client, self._pool, self._clock, self._deadline = client, pool, clock, deadline

    def converge(
        self, ctx: ctrlhost.Context, spec: NetworkSpec, nodes: Sequence[Node], memory: NetworkMemory
    ) -> MeshReport:
        """Bring the daemons' lists in line with the nodes that are ready; one that fails holds up no other."""
        ready, twins = reachable(nodes)
        for node, other in twins:
            ctx.log.warning("%s has the IP of %s (%s) and is left out", node.pod, other.pod, node.ip)
        states = self._states(nodes, ready, memory)
        now = self._clock.now()
        looks = self._look(ctx, spec, nodes, [node for node in ready if states[node.uid, node.ip].due(now)], memory)
        news, late = [], False
        # What took time took it from the waits, too.
        now = self._clock.now()
        for look in looks:
            node = look.task.node
            state = states[node.uid, node.ip]
            for what, addresses in (("added", look.added), ("removed", look.removed)):
                if addresses:
                    ctx.log.info("%s %s on %s", what, ", ".join(addresses), node.pod)
            if isinstance(look.failure, Closed):
                return MeshReport(len(ready), 0, (), (), (), None, broken_off=True)
            if look.failure is not None:
                ctx.log.debug("%s (%s): %s", node.pod, node.ip, look.failure)
                if state.failed(look.failure.reason, now):
                    news.append((node, look.failure.reason))
            elif look.done:
                state.accepted = look.accepted
                state.succeeded(len(look.task.targets), look.connected, now, wrote=look.wrote)
                state.converged = state.converged and not look.stale
            else:
                state.converged, late = False, True
        if late and not self._may_go_on(ctx):
            return MeshReport(len(ready), 0, (), (), (), None, broken_off=True)
        return self._report(ready, states, tuple(news), now, late=late)

    def _states(self, nodes: Sequence[Node], ready: Sequence[Node], memory: NetworkMemory) -> dict[NodeKey, NodeState]:
        """Give the states of those that can be called, and forget pods that are gone."""
        known = {(node.uid, node.ip): memory.nodes.get((node.uid, node.ip)) for node in nodes}
        kept = {key: state for key, state in known.items() if state is not None}
        renewed = False
        for node in ready:
            state = kept.setdefault((node.uid, node.ip), NodeState())
            renewed = state.renew(node.containers, memory.credentials.revision) or renewed
        if renewed:
            # Its peers have lost it though they were told of it, and should not wait before they dial.
            for state in kept.values():
                state.dial_at, state.dial_wait = None, 0.0
        callable_now = {(node.uid, node.ip) for node in ready}
        for key, state in kept.items():
            if key not in callable_now:
                state.wanted = state.connected = 0
        memory.nodes = kept
        return kept

    def _look(
        self,
        ctx: ctrlhost.Context,
        spec: NetworkSpec,
        nodes: Sequence[Node],
        due: Sequence[Node],
        memory: NetworkMemory,
    ) -> list[Look]:
        addresses = {node.ordinal: address(node.ip, spec.p2p_port) for node in reachable(nodes)[0]}
        members = frozenset(node.ip for node in nodes if node.ip)
        lanes = Lanes(self._pool, _WIDTH, lambda: self._may_go_on(ctx))
        now, lookers = self._clock.now(), []
        for node in due:
            state = memory.nodes[node.uid, node.ip]
            candidates = memory.credentials.candidates(node.digest)
            if state.accepted in candidates and state.accepted != candidates[0]:
                candidates = (state.accepted, *(each for each in candidates if each != state.accepted))
            task = Task(
                node=node,
                candidates=candidates,
                rpc_port=spec.rpc_port,
                p2p_port=spec.p2p_port,
                targets=targets(node.ordinal, spec.nodes, addresses),
                members=members,
                dial=state.dials(now),
            )
            state.wanted = len(task.targets)
            lookers.append(Looker(self._client, lanes, task))
        for looker in lookers:
            lanes.add(looker.begin)
        lanes.wait(self._deadline)
        return [looker.look for looker in lookers]

    def _report(
        self,
        ready: Sequence[Node],
        states: dict[NodeKey, NodeState],
        news: tuple[tuple[Node, str], ...],
        now: float,
        *,
        late: bool,
    ) -> MeshReport:
        own = [(node, states[node.uid, node.ip]) for node in ready]
        wakes = [at - now for _, state in own if (at := state.wakes_at()) is not None]
        if late:
            wakes.append(_NEXT_PASS)
        refusing = tuple(node.pod for node, state in own if state.reason == "Unauthorized")
        return MeshReport(
            ready=len(ready),
            converged=sum(state.converged for _, state in own),
            unauthorized=refusing,
            unreachable=tuple(node.pod for node, state in own if state.told and node.pod not in refusing),
            news=news,
            again=max(min(wakes), 0.01) if wakes else None,
        )

    @staticmethod
    def _may_go_on(ctx: ctrlhost.Context) -> bool:
        return ctx.leading and not ctx.stopping
