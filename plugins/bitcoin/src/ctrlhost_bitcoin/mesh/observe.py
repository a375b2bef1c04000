"""One pass over one daemon: its list of nodes, the list that it should have, and the calls that change it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ctrlhost_bitcoin.mesh.targets import ip_of
from ctrlhost_bitcoin.rpc.client import RpcTarget
from ctrlhost_bitcoin.rpc.errors import ALREADY_ADDED, NOT_ADDED, NOT_CONNECTED, RpcError, RpcFailure, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_bitcoin.mesh.bounded_pool import BoundedPool
    from ctrlhost_bitcoin.mesh.nodes import Node
    from ctrlhost_bitcoin.rpc.client import AddedNode, Credentials, RpcClient


@dataclass(frozen=True, slots=True)
class Task:
    """The desired state of a daemon."""

    node: Node
    #: In the order in which to try them.
    candidates: tuple[Credentials, ...]
    rpc_port: int
    p2p_port: int
    #: The addresses that its list should have.
    targets: tuple[str, ...]
    #: IPs of the network's pods, ready or not; a connection to any other is cut when its address is removed.
    members: frozenset[str]
    #: Whether to dial again what was added before and is not connected.
    dial: bool
    #: Whether to change nothing, and only note what would change.
    dry_run: bool = False


class Observer:
    """Observes and changes one daemon in several steps on a pool; created for one pass.

    Read the results once the pool is at rest, or has been abandoned.
    """

    def __init__(self, client: RpcClient, pool: BoundedPool, task: Task) -> None:
        """Prepare; `start` is the first step."""
        self._client, self._pool, self.task = client, pool, task
        self._lock = threading.Lock()
        self._dialling = 0
        self._target: RpcTarget | None = None
        self.done = self.wrote = False
        self.failure: RpcFailure | None = None
        self.stale = self.connected = 0
        self.accepted: Credentials | None = None
        self.added: list[str] = []
        self.removed: list[str] = []
        #: What would change, in a dry run.
        self.planned: tuple[str, ...] = ()

    def start(self) -> None:
        """Read the list, add what is missing, remove what is stale, then have the daemon dial."""
        task = self.task
        with self._failures_noted():
            listed = self._list()
            if listed is None:
                return
            known = {node.addednode for node in listed}
            missing = [target for target in task.targets if target not in known]
            stale = [peer for peer in known - set(task.targets) if ip_of(peer, task.p2p_port) is not None]
            lost = [node.addednode for node in listed if node.addednode in task.targets and not node.connected]
            dialled = [*missing, *(lost if task.dial else ())]
            if task.dry_run:
                changes = (("add", missing), ("remove", sorted(stale)), ("dial", dialled))
                self.planned = tuple(f"{what} {peer}" for what, addresses in changes for peer in addresses)
                self._conclude(listed)
                return
            if not self._write(missing, sorted(stale)):
                return
            if not dialled:
                self._conclude(None if self.wrote else listed)
                return
            self._dialling = len(dialled)
            # Each by a call of its own, since each may take seconds.
            for address in dialled:
                self._pool.add(partial(self._dial, address))

    def _list(self) -> list[AddedNode] | None:
        """Read the list with the first credentials that are accepted; None if the pass is over."""
        task, refusal = self.task, None
        for credentials in task.candidates:
            if not self._pool.may_continue():
                return None
            target = RpcTarget(task.node.ip, task.rpc_port, credentials)
            try:
                listed = self._client.added_nodes(target)
            except Unauthorized as failure:
                refusal = failure
                continue
            self._target, self.accepted = target, credentials
            return listed
        if refusal is not None:
            raise refusal
        return None

    def _write(self, missing: Sequence[str], stale: Sequence[str]) -> bool:
        """Change the list; False if the pass is over before all is done."""
        cut = [peer for peer in stale if ip_of(peer, self.task.p2p_port) not in self.task.members]
        # Added first, since an added node may replace a removed one: links never drop.
        steps: tuple[tuple[Sequence[str], str, Sequence[str], int, list[str] | None], ...] = (
            (missing, "addnode", ("add",), ALREADY_ADDED, self.added),
            (stale, "addnode", ("remove",), NOT_ADDED, self.removed),
            (cut, "disconnectnode", (), NOT_CONNECTED, None),
        )
        for addresses, method, params, harmless, done in steps:
            if not addresses:
                continue
            if not self._pool.may_continue():
                return False
            self.wrote = True
            calls = [(method, (peer, *params)) for peer in addresses]
            for address, result in zip(addresses, self._client.batch(self._target, calls), strict=True):
                if isinstance(result, RpcFailure) and not (isinstance(result, RpcError) and result.code == harmless):
                    raise result
                if done is not None:
                    done.append(address)
        return True

    def _dial(self, address: str) -> None:
        with self._failures_noted():
            if not self._pool.may_continue():
                return
            if self.failure is None:
                self._client.onetry(self._target, address)
        with self._lock:
            self._dialling -= 1
            last = not self._dialling
        if last and self.failure is None:
            with self._failures_noted():
                self._conclude(None)

    def _conclude(self, listed: list[AddedNode] | None) -> None:
        """Count the links, in the list or, without one, in what the daemon lists by now."""
        if listed is None:
            if not self._pool.may_continue():
                return
            listed = self._client.added_nodes(self._target)
        wanted, names = set(self.task.targets), {node.addednode: node.connected for node in listed}
        self.connected = sum(connected for name, connected in names.items() if name in wanted)
        self.stale = sum(name not in wanted and ip_of(name, self.task.p2p_port) is not None for name in names)
        self.done = True

    @contextmanager
    def _failures_noted(self) -> Iterator[None]:
        """Note the first failure of a call, which ends the pass."""
        try:
            yield
        except RpcFailure as failure:
            with self._lock:
                if self.failure is None:
                    self.failure = failure
