"""One look at one daemon: who it was told of, who it should be told of, and the calls that make it so."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlhost_bitcoin.mesh.targets import ip_of
from ctrlhost_bitcoin.rpc.client import RpcTarget
from ctrlhost_bitcoin.rpc.errors import RpcError, RpcFailure, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ctrlhost_bitcoin.mesh.bounded_pool import Lanes
    from ctrlhost_bitcoin.mesh.nodes import Node
    from ctrlhost_bitcoin.rpc.client import AddedNode, Credentials, RpcClient


@dataclass(frozen=True, slots=True)
class Task:
    """What a look is to achieve."""

    node: Node
    #: What to call it with, in this order.
    candidates: tuple[Credentials, ...]
    rpc_port: int
    p2p_port: int
    #: The addresses that it is to have.
    targets: tuple[str, ...]
    #: IPs of the network's pods, ready or not; a connection to any other is cut when its address is removed.
    members: frozenset[str]
    #: Whether to dial again what was added before and is not connected.
    dial: bool


@dataclass(slots=True)
class Look:
    """What came of it; read it once the lanes are at rest, or have been left."""

    task: Task
    done: bool = False
    failure: RpcFailure | None = None
    wrote: bool = False
    stale: int = 0
    connected: int = 0
    accepted: Credentials | None = None
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


class Looker:
    """Looks at one daemon, in several steps that run on lanes; made for one pass."""

    def __init__(self, client: RpcClient, lanes: Lanes, task: Task) -> None:
        """Prepare; `begin` is the first step."""
        self._client, self._lanes, self.look = client, lanes, Look(task)
        self._lock = threading.Lock()
        self._dialling = 0
        self._target: RpcTarget | None = None

    def begin(self) -> None:
        """Read the list, add what is missing, remove what is stale, then have the daemon dial."""
        task = self.look.task
        with self._noted():
            listed = self._list()
            if listed is None:
                return
            known = {each.addednode for each in listed}
            missing = [each for each in task.targets if each not in known]
            stale = [each for each in known - set(task.targets) if ip_of(each, task.p2p_port) is not None]
            lost = [each.addednode for each in listed if each.addednode in task.targets and not each.connected]
            if not self._write(missing, sorted(stale)):
                return
            dialled = [*missing, *(lost if task.dial else ())]
            if dialled:
                self._dial(dialled)
            else:
                self._conclude(listed, look_again=self.look.wrote)

    def _list(self) -> list[AddedNode] | None:
        """Read the list, with the first credentials that are taken; None if the pass is over."""
        task, refusal = self.look.task, None
        for credentials in task.candidates:
            if not self._lanes.may_go_on():
                return None
            target = RpcTarget(task.node.ip, task.rpc_port, credentials)
            try:
                listed = self._client.added_nodes(target)
            except Unauthorized as failure:
                refusal = failure
                continue
            self._target, self.look.accepted = target, credentials
            return listed
        if refusal is not None:
            raise refusal
        return None

    def _write(self, missing: Sequence[str], stale: Sequence[str]) -> bool:
        """Change the list; False if the pass is over before all is done."""
        look, task = self.look, self.look.task
        # Who is added may take the place of who is removed, so links never drop.
        cut = [each for each in stale if ip_of(each, task.p2p_port) not in task.members]
        steps: tuple[tuple[Sequence[str], str, Sequence[str], Callable[[RpcError], bool], list[str] | None], ...] = (
            (missing, "addnode", ("add",), lambda error: error.is_already_added, look.added),
            (stale, "addnode", ("remove",), lambda error: error.is_not_added, look.removed),
            (cut, "disconnectnode", (), lambda error: error.is_not_connected, None),
        )
        for addresses, method, params, is_fine, done in steps:
            if not addresses:
                continue
            if not self._lanes.may_go_on():
                return False
            look.wrote = True
            calls = [(method, (each, *params)) for each in addresses]
            for address, result in zip(addresses, self._client.batch(self._target, calls), strict=True):
                if isinstance(result, RpcFailure) and not (isinstance(result, RpcError) and is_fine(result)):
                    raise result
                if done is not None:
                    done.append(address)
        return True

    def _dial(self, addresses: Sequence[str]) -> None:
        """Have it dial at once, each address by a call of its own, since each may take seconds."""
        self._dialling = len(addresses)
        for address in addresses:
            self._lanes.add(partial(self._dial_one, address))

    def _dial_one(self, address: str) -> None:
        with self._noted():
            if not self._lanes.may_go_on():
                return
            if self.look.failure is None:
                self._client.onetry(self._target, address)
        with self._lock:
            self._dialling -= 1
            last = not self._dialling
        if last and self.look.failure is None:
            with self._noted():
                self._conclude(None, look_again=True)

    def _conclude(self, listed: list[AddedNode] | None, *, look_again: bool) -> None:
        """Take stock."""
        look, task = self.look, self.look.task
        if look_again:
            if not self._lanes.may_go_on():
                return
            listed = self._client.added_nodes(self._target)
        wanted = set(task.targets)
        names: dict[str, Any] = {each.addednode: each.connected for each in listed or ()}
        look.connected = sum(bool(connected) for name, connected in names.items() if name in wanted)
        look.stale = sum(name not in wanted and ip_of(name, task.p2p_port) is not None for name in names)
        look.done = True

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Note the first failure of a call, with which the pass ends."""
        try:
            yield
        except RpcFailure as failure:
            with self._lock:
                if self.look.failure is None:
                    self.look.failure = failure
