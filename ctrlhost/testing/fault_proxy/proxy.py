"""The proxy itself: a thread with a port in front of an API server, and its controls for tests."""

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
from ctrlhost.testing.fault_proxy.listener import Listener
from ctrlhost.testing.fault_proxy.plan import WEIGHTS, GlobalFaults, Plan, RandomFaults
from ctrlhost.testing.fault_proxy.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from ctrlhost.testing.fault_proxy.fault import Fault, Injected

SEED = "CTRLHOST_SEED"
_TIMEOUT = 10.0
_HANDSHAKES_END = 2.0


class FaultProxy:
    """A proxy in front of one API server, with TLS on both sides. Clients that use its `kubeconfig` connect through it.

    Methods may be called from any thread, and have taken effect when they return.
    """

    def __init__(self, server: Any, *, context: str | None = None, seed: int | None = None) -> None:
        """Prepare for `server`: the path of a kubeconfig, or anything with a `.kubeconfig`.

        `seed` is the seed of storms (default: `$CTRLHOST_SEED`, otherwise random).
        """
        self._source = Path(getattr(server, "kubeconfig", server))
        self._context = context
        seed_text = os.environ.get(SEED)
        #: The seed of the next storm.
        self.seed: int = (
            seed if seed is not None else int(seed_text) if seed_text else random.SystemRandom().randrange(1 << 31)
        )
        self._plan = Plan()
        self._folder = tempfile.TemporaryDirectory(prefix="ctrlhost-proxy-")
        #: The kubeconfig for clients: the proxy's address, its CA and the server's user.
        self.kubeconfig = Path(self._folder.name, "kubeconfig")
        self.url = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._global_faults = GlobalFaults()

    def start(self) -> Self:
        """Listen on a free port of the loopback interface, and write the kubeconfig."""
        from ctrlhost_sandbox.http import tls

        connection = load_connection(self._source, self._context)
        certificates = tls.issue("127.0.0.1")
        upstream = Upstream(connection)
        self._listener = Listener(self._plan, self._global_faults, certificates.server_context(), upstream)
        self.url = f"https://127.0.0.1:{self._listener.port}"
        kubeconfigs.write(self.kubeconfig, self._source, self._context, url=self.url, ca=certificates.ca)
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._thread.start()
        self._run(Listener.open)
        return self

    def stop(self) -> None:
        """Close everything for good."""
        if self._loop is None or self._thread is None:
            return
        self._run(self._shut)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT)
        self._loop.close()
        self._loop = None
        self._folder.cleanup()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    # ---- the network as a whole ----

    def cut(self, *, silent: bool = False) -> None:
        """Cut the network: connections are reset and new ones refused, until `restore`.

        With `silent` no data is forwarded, and no connection is closed or refused, as with a lost route.
        """
        self._run(Listener.silence if silent else Listener.cut)

    def restore(self) -> None:
        """Restore the network. After a silent cut, delayed data is delivered."""
        self._run(Listener.open)

    def drop(self) -> None:
        """Reset every open connection once; new ones are accepted."""
        self._run(Listener.drop)

    def delay(self, seconds: float) -> None:
        """Delay every request and every piece of an answer by `seconds`; 0 ends it."""
        self._global_faults.latency = seconds

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
        """Inject `fault` into the next `times` requests of this verb, resource (a plural) and name; None is any.

        Verbs are `get`, `list`, `watch`, `create`, `replace`, `apply`, `patch`, `delete` and `delete_collection`.
        Faults of connections hit the next new ones, from any client.
        """
        self._plan.order(fault, verb, resource, name, times)

    def left(self) -> int:
        """Return the number of faults of `next` that are still pending."""
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
        """Inject random faults into a share of all requests until `calm`, and return the seed.

        It begins with `drop`, so that open watches are included.

        `connections` is the share of new connections that fail. `watches` is the share of watches that are hit within
        `within` seconds, and again until they end. A `stall` or `half-open` ends in a reset after `silence` seconds;
        with 0 it never does. `kinds` are the kinds of faults with their weights; ValueError for an unknown one. The
        fault of a request depends on the seed, its verb, its path and the number of earlier ones, not on other threads.
        """
        if unknown := set(kinds or ()) - set(WEIGHTS):
            raise ValueError(f"unknown kinds of faults: {', '.join(sorted(unknown))}; known: {', '.join(WEIGHTS)}")
        used = self.seed if seed is None else seed
        self._plan.storm(RandomFaults(used, rate, watches, connections, within, silence, dict(kinds or WEIGHTS)))
        self.drop()
        return used

    def calm(self) -> None:
        """End the storm, drop the faults of `next`, and end silence and delay."""
        self._plan.clear()
        self._global_faults.latency = 0.0
        self._run(Listener.open)

    # ---- the record ----

    @property
    def requests(self) -> int:
        """The number of requests received so far."""
        return self._plan.requests

    @property
    def total(self) -> int:
        """The number of injected faults."""
        return self._plan.total

    @property
    def counts(self) -> dict[str, int]:
        """The number of injected faults by kind."""
        return dict(self._plan.counts)

    @property
    def log(self) -> list[Injected]:
        """The newest ten thousand injected faults, oldest first."""
        return list(self._plan.log)

    # ---- in the proxy's own thread ----

    def _run(self, work: Callable[[Listener], Coroutine[Any, Any, None]]) -> None:
        if self._loop is None:
            raise RuntimeError("the proxy is not running")
        asyncio.run_coroutine_threadsafe(work(self._listener), self._loop).result(_TIMEOUT)

    async def _shut(self, listener: Listener) -> None:
        await listener.close()
        # A cancelled handshake still sends its alert. In the end only the loop's own pipe is left.
        deadline = time.monotonic() + _HANDSHAKES_END
        while len(self._selector.get_map()) > 1 and time.monotonic() < deadline:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
