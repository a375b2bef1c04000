"""The proxy itself: a thread with a listening port before an API server, and what a test does with it."""

from __future__ import annotations

import asyncio
import os
import random
import selectors
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ctrlhost.kubeconfig.load import load_connection
from ctrlhost.testing.fault_proxy import kubeconfig as kubeconfigs
from ctrlhost.testing.fault_proxy.door import Door
from ctrlhost.testing.fault_proxy.plan import WEIGHTS, Plan, Storm
from ctrlhost.testing.fault_proxy.serve import Weather
from ctrlhost.testing.fault_proxy.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from types import TracebackType

    from ctrlhost.testing.fault_proxy.fault import Fault, Injected

SEED = "CTRLHOST_SEED"
_ENDS = 10.0
_FAREWELL = 2.0


class FaultProxy:
    """Stands before one API server. Clients that use its `kubeconfig` go through it; all others are left alone.

    Methods may be called from any thread, and have taken effect when they return. TLS on both sides.
    """

    def __init__(self, server: Any, *, context: str | None = None, seed: int | None = None) -> None:
        """Stand before `server`: the path of a kubeconfig, or anything that has one as `.kubeconfig`.

        `seed` is what storms draw from; without it `$CTRLHOST_SEED`, else one is made up.
        """
        self._source = Path(getattr(server, "kubeconfig", server))
        self._context = context
        given = os.environ.get(SEED)
        #: The seed of the next storm.
        self.seed: int = seed if seed is not None else int(given) if given else random.SystemRandom().randrange(1 << 31)
        self._plan = Plan()
        self._folder = tempfile.TemporaryDirectory(prefix="ctrlhost-proxy-")
        #: Where clients find the proxy's address, its CA and the server's user.
        self.kubeconfig = Path(self._folder.name, "kubeconfig")
        self.url = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._weather = Weather()
        self._door = Door(self._plan, self._weather)

    def start(self) -> Self:
        """Listen on a free port of the loopback interface, and write the kubeconfig."""
        from ctrlhost.sandbox.http import tls

        connection = load_connection(self._source, self._context)
        certificates = tls.issue("127.0.0.1")
        port = self._door.place(certificates.server_context(), Upstream(connection))
        self.url = f"https://127.0.0.1:{port}"
        kubeconfigs.write(self.kubeconfig, self._source, self._context, url=self.url, ca=certificates.ca)
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._thread.start()
        self._run(self._door.open())
        return self

    def stop(self) -> None:
        """Close everything; for good."""
        if self._loop is None or self._thread is None:
            return
        self._run(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ENDS)
        self._loop.close()
        self._loop = None
        self._folder.cleanup()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    # ---- the network as a whole ----

    def cut(self, *, silent: bool = False) -> None:
        """Take the network away: connections are reset and new ones refused, until `restore`.

        With `silent` nothing is closed, nothing is refused and nothing arrives: what a lost route looks like.
        """
        self._run(self._door.silence() if silent else self._door.cut())

    def restore(self) -> None:
        """Give the network back. After a silent cut what was on its way arrives."""
        self._run(self._door.open())

    def drop(self) -> None:
        """Reset every open connection, once; new ones are welcome."""
        self._run(self._door.drop())

    def delay(self, seconds: float) -> None:
        """Hold every request and every piece of an answer back for so long; 0 ends it."""
        self._weather.latency = seconds

    # ---- single faults and storms ----

    def next(
        self,
        fault: Fault,
        *,
        verb: str | None = None,
        resource: str | None = None,
        name: str | None = None,
        times: int = 1,
    ) -> None:
        """Let `fault` hit the next `times` requests of this verb, resource (a plural) and name; None is any.

        Verbs are `get`, `list`, `watch`, `create`, `replace`, `apply`, `patch`, `delete` and `delete_collection`.
        Faults of connections hit the next new ones, whoever makes them.
        """
        self._plan.order(fault, verb, resource, name, times)

    def left(self) -> int:
        """Give how many faults of `next` have hit nothing yet."""
        return self._plan.left()

    def storm(
        self,
        rate: float = 0.3,
        *,
        watches: float = 1.0,
        connections: float = 0.1,
        within: float = 0.1,
        silence: float = 1.0,
        seed: int | None = None,
        kinds: Mapping[str, float] | None = None,
    ) -> int:
        """Hit a share of all requests with faults drawn from the seed, until `calm`; give the seed.

        It begins with `drop`, so that watches which are open already take part.

        `connections` is the share of new connections that fail, `watches` that of watches, which live long: each that
        is hit is so after `within` seconds at most, and again until it ends. A
        `stall` or `half-open` that the client bears for `silence` seconds ends in a reset; with 0 it never does.
        `kinds` are the kinds of faults with their weights. The fault of a request depends on the seed, its verb, its
        path and how many of these there were, not on what other threads do meanwhile.
        """
        if unknown := set(kinds or ()) - set(WEIGHTS):
            raise ValueError(f"no kinds of faults: {', '.join(sorted(unknown))}; there are {', '.join(WEIGHTS)}")
        used = self.seed if seed is None else seed
        self._plan.storm(Storm(used, rate, watches, connections, within, silence, dict(kinds or WEIGHTS)))
        self.drop()
        return used

    def calm(self) -> None:
        """End the storm, take back what `next` ordered, and lift silence and delay."""
        self._plan.clear()
        self._weather.latency = 0.0
        self._run(self._door.open())

    # ---- what happened ----

    @property
    def requests(self) -> int:
        """How many requests came so far."""
        return self._door.requests

    @property
    def total(self) -> int:
        """How many faults have struck."""
        return self._plan.total

    @property
    def counts(self) -> dict[str, int]:
        """How many faults of each kind have struck."""
        return dict(self._plan.counts)

    @property
    def log(self) -> list[Injected]:
        """The newest ten thousand faults that struck, oldest first."""
        return list(self._plan.log)

    # ---- in the proxy's own thread ----

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        if self._loop is None:
            work.close()
            raise RuntimeError("the proxy is not running")
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_ENDS)

    async def _shut(self) -> None:
        await self._door.shut()
        # A handshake that was called off still says its farewell; only the loop's own pipe is to be left.
        deadline = time.monotonic() + _FAREWELL
        while len(self._selector.get_map()) > 1 and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
