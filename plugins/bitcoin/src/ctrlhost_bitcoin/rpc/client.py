"""JSON-RPC to bitcoind: one client for all daemons, called from any number of threads."""

from __future__ import annotations

import itertools
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.clock import SystemClock
from ctrlhost_bitcoin.rpc import encoding
from ctrlhost_bitcoin.rpc.errors import Protocol, RpcFailure
from ctrlhost_bitcoin.rpc.http import HttpLayer, PooledHttp
from ctrlhost_bitcoin.rpc.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost import Clock


@dataclass(frozen=True, slots=True)
class Credentials:
    """A daemon's user and password; the representation shows neither."""

    user: str = field(repr=False)
    password: str = field(repr=False)

    def authorization(self) -> str:
        """Return the value of the Authorization header."""
        return "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")


@dataclass(frozen=True, slots=True)
class RpcTarget:
    """A daemon: its IP address, of either family and without brackets, its RPC port, and its credentials."""

    host: str
    port: int
    credentials: Credentials


class AddedNode(msgspec.Struct, frozen=True):
    """An entry of a daemon's list: the string as it was added, and whether an outbound connection exists for it."""

    addednode: str
    connected: bool


# msgspec inspects a type at its first use, which is not safe in two threads at once.
msgspec.json.Decoder(AddedNode)


class RpcClient:
    """Calls daemons; every method may be used from any thread and raises an `RpcFailure` if there is no result.

    Each call waits for one of `concurrency` slots, and one of the `per_daemon` slots of its daemon, and ends within the
    limit of its method, in seconds. `clock` measures the calls and the age of idle connections. `observe` is called
    after each call with its method, `ok` or a failure's reason, and the seconds; in a batch once per item.
    """

    def __init__(
        self,
        default: RpcTarget | None = None,
        *,
        clock: Clock | None = None,
        http: HttpLayer | None = None,
        connect_timeout: float = 2.0,
        timeout: float = 5.0,
        onetry_timeout: float = 8.0,
        concurrency: int = 64,
        per_daemon: int = 4,
        observe: Callable[[str, str, float], None] | None = None,
    ) -> None:
        """Connect to no daemon yet; `default` is the target of calls without one."""
        self._default = default
        self._clock = clock or SystemClock()
        self._http = http or PooledHttp(self._clock)
        self._connect, self._timeout, self._onetry = connect_timeout, timeout, onetry_timeout
        self._slots = Slots(concurrency, per_daemon)
        self._observe = observe
        self._numbers = itertools.count(1)

    def call(self, target: RpcTarget | None, method: str, *params: Any, limit: float | None = None) -> Any:
        """Call one method and return its result."""
        number = next(self._numbers)
        content = encoding.request(number, method, params)
        (result,) = self._exchange(
            target, [method], content, limit or self._timeout, lambda answer: [encoding.result(answer, number)]
        )
        return result

    def batch(self, target: RpcTarget | None, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """Send calls together, which the daemon runs in sequence; return a result or an `RpcFailure` for each.

        Raises a failure of the whole batch. Never batch several `onetry`: each may take seconds.
        """
        if not calls:
            return []
        numbers = [next(self._numbers) for _ in calls]
        content = [encoding.request(number, *call) for number, call in zip(numbers, calls, strict=True)]
        methods = [method for method, _ in calls]
        return self._exchange(target, methods, content, self._timeout, lambda answer: encoding.results(answer, numbers))

    def added_nodes(self, target: RpcTarget | None = None) -> list[AddedNode]:
        """Return the nodes that were added to the daemon's list, oldest first."""
        nodes = self.call(target, "getaddednodeinfo")
        try:
            return msgspec.convert(nodes, list[AddedNode])
        except msgspec.ValidationError:
            raise Protocol("invalid answer: not a list of added nodes") from None

    def add_node(self, target: RpcTarget | None, address: str) -> None:
        """Add to the daemon's list; an `RpcError` with `ALREADY_ADDED` if it was there."""
        self.call(target, "addnode", address, "add")

    def remove_node(self, target: RpcTarget | None, address: str) -> None:
        """Remove from the list, by the string that was added; an `RpcError` with `NOT_ADDED` if it was absent."""
        self.call(target, "addnode", address, "remove")

    def onetry(self, target: RpcTarget | None, address: str) -> None:
        """Dial a peer at once, whether it succeeds or not; takes 5 s if its packets are dropped."""
        self.call(target, "addnode", address, "onetry", limit=self._onetry)

    def close(self) -> None:
        """Stop sending calls; those in flight end within their limits, those that wait raise `Closed`."""
        self._slots.close()
        self._http.close()

    def _exchange(
        self,
        target: RpcTarget | None,
        methods: Sequence[str],
        content: Any,
        limit: float,
        read: Callable[[Any], list[Any]],
    ) -> list[Any]:
        daemon = target or self._default
        if daemon is None:
            raise ValueError("the call names no daemon, and the client has no default")
        body = msgspec.json.encode(content)
        headers = {"Authorization": daemon.credentials.authorization(), "Content-Type": "application/json"}
        with self._slots.hold(daemon.host, daemon.port):
            started, outcomes = self._clock.now(), ["error"] * len(methods)
            try:
                status, answer = self._http.post(
                    daemon.host, daemon.port, body, headers, connect=self._connect, answer=limit
                )
                results = read(encoding.decode(status, answer))
                outcomes = [result.reason if isinstance(result, RpcFailure) else "ok" for result in results]
                return results
            except RpcFailure as failure:
                outcomes = [failure.reason] * len(methods)
                raise
            finally:
                if self._observe is not None:
                    seconds = self._clock.now() - started
                    for method, outcome in zip(methods, outcomes, strict=True):
                        self._observe(method, outcome, seconds)
