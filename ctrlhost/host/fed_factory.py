"""The informers of an isolated plugin, which read the feed of its host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctrlhost.informers import InformerFactory
from ctrlhost.kubeconfig.connection import from_unix_socket
from ctrlhost.supervisor.channel import Announce, AwaitLists, Declare, FedScope
from ctrlhost.transport.native import NativeTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.informers import Informer, ReflectorOptions
    from ctrlhost.informers.namespace_informer import Scope


class FedFactory(InformerFactory):
    """A factory whose informers read the feed, and which tells the host what they read."""

    # The host has been asked for what the informer keeps already.
    _may_widen = False

    def __init__(
        self,
        client: Client,
        socket: str,
        *,
        resync: float | None,
        clock: Clock,
        options: ReflectorOptions,
        send: Callable[[object], object],
        ask: Callable[[Callable[[int], object]], None],
    ) -> None:
        """Read the feed at `socket`, and use `client` for discovery.

        `send` sends a message to the host; `ask` sends one with the given number, and waits until it is done.
        """
        fed = client.derive(transport=NativeTransport(from_unix_socket(socket)), discovery=client.transport)
        super().__init__(fed, resync, clock=clock, options=options)
        self._send = send
        self._ask = ask
        self._fed: set[Scope] = set()

    def declare_scope(self, scope: Scope, owner: Hashable = None) -> None:
        """Declare future reads, to the host as well, so that the informers of both keep enough.

        The host forgets them with the end of the process.
        """
        super().declare_scope(scope, owner)
        self._send(Announce(FedScope.of(scope)))

    def _make(self, scope: Scope, *, optional: bool) -> Informer:
        # A part of the objects is chosen here.
        reads: Any = "metadata" if scope.reads == "metadata" else None
        fed = replace(scope, reads=reads, transform=None, owner=None)
        if fed not in self._fed:
            self._ask(lambda number: Declare(number, FedScope.of(fed)))
            self._fed.add(fed)
        return super()._make(scope, optional=optional)

    def start(self) -> None:
        """Start the informers when the host can answer their lists, or after a while."""
        self._ask(AwaitLists)
        super().start()
