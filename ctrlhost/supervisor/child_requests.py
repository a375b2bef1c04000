"""What the process of an isolated plugin asks its host for: informers of the feed, and the installation of CRDs."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.context import bound
from ctrlhost.errors import CtrlhostError
from ctrlhost.supervisor.channel import Announce, AwaitLists, Declare, Done, Install, Waits
from ctrlhost.supervisor.containment import failure_of
from ctrlhost.supervisor.crds import Installation, install_crds

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.informers.namespace_informer import Scope
    from ctrlhost.supervisor.cache_server import Reader
    from ctrlhost.supervisor.isolation import Isolation
    from ctrlhost.supervisor.owner import Owner
    from ctrlhost.supervisor.process import Process

log = logging.getLogger("ctrlhost.host")

#: Seconds between two looks whether the process is to end.
_PERIOD = 0.25
#: Seconds that a process may wait for the first lists of the host, and between two looks at these.
_FIRST_LISTS, _SOON = 2.0, 0.01


class ChildRequests:
    """The requests of one process, which are answered over its control socket."""

    def __init__(
        self,
        owner: Owner,
        process: Process,
        isolation: Isolation,
        ending: threading.Event,
    ) -> None:
        """Do what `process` asks for until `ending`."""
        self._owner = owner
        self._process = process
        self._isolation = isolation
        self._ending = ending
        self._reader: Reader | None = None

    def take(self, message: Announce | Declare | AwaitLists | Install) -> None:
        """Do what a message asks for; what takes long, on another thread. One thread calls this."""
        match message:
            case Announce(scope):
                self._announce(scope.scope())
            case Declare(number, scope):
                self._answer(number, self._declare, scope.scope())
            case AwaitLists(number):
                self._start(f"{self._owner.name}/lists", number, self._await_lists)
            case Install(number):
                self._start(f"{self._owner.name}/crds", number, self._install, message)

    def _start(self, name: str, *args: Any) -> None:
        threading.Thread(target=self._answer, args=args, name=name, daemon=True).start()

    def over_budget(self) -> str:
        """Return for which kind that the process reads the memory budget has no room, and why; or nothing."""
        return self._reader.over_budget() if self._reader is not None else ""

    def close(self) -> None:
        """End the feed of the process, and forget what it has declared."""
        if self._reader is not None:
            self._reader.close()
        if self._owner.services is not None:
            self._owner.services.factory.withdraw(self)

    def _answer(self, number: int, act: Callable[..., None], *args: Any) -> None:
        problem = ""
        try:
            with bound(plugin=self._owner.name):
                act(*args)
        except Exception as error:
            log.debug("plugin %s: %s", self._owner.name, error, exc_info=error)
            problem = failure_of("the host", error).reason
        self._process.channel.send(Done(number, problem))

    def _announce(self, scope: Scope) -> None:
        if self._owner.services is not None:
            reads = "metadata" if scope.reads == "metadata" else None
            self._owner.services.factory.declare_scope(replace(scope, reads=reads), self)

    def _await_lists(self) -> None:
        """Wait until what the process has declared can be listed, or for a while."""
        deadline = time.monotonic() + _FIRST_LISTS
        while self._reader is not None and not self._reader.settled() and time.monotonic() < deadline:
            if self._ending.wait(_SOON):
                return

    def _declare(self, scope: Scope) -> None:
        feed = self._isolation.feed
        if feed is None:
            raise CtrlhostError("the host has no informers yet")
        if self._reader is None:
            self._reader = feed.open(self._owner.name, self._process.directory / "feed.sock")
        self._reader.declare(scope)

    def _install(self, message: Install) -> None:
        """Install CRDs and objects of the plugin, and wait until its peers have tried to install theirs."""
        owner = self._owner
        services = owner.services
        if services is None:
            return

        def waiting(why: str) -> None:
            owner.crds_tried.set()
            self._process.channel.send(Waits(message.request, why))

        forced, addressed = owner.with_crds == "force", services.addressed
        installation = Installation(message.version, force=forced, addressed=addressed)
        if not install_crds(services.client, message.crds, self._ending, waiting, installation, message.objects):
            return
        for group in {crd["spec"]["group"] for crd in message.crds}:
            services.factory.wake(group)
        owner.crds_tried.set()
        for tried in owner.waits_for:
            while not tried.wait(_PERIOD) and not self._ending.is_set():
                pass
