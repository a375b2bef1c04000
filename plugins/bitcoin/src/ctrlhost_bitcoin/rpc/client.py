"""JSON-RPC to bitcoind: one client for all daemons, in as many threads as want to call."""

from __future__ import annotations

import itertools
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.clock import SystemClock
from ctrlhost_bitcoin.rpc import encoding
from ctrlhost_bitcoin.rpc.errors import (
    Protocol,
    RpcFailure,
)
from ctrlhost_bitcoin.rpc.http import HttpLayer, PooledHttp
from ctrlhost_bitcoin.rpc.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.clock import Clock

Observer = Callable[[str, str, float], None]
"""Called after each call with its method, `ok` or a failure's reason, and the seconds, in a batch each call's."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A daemon's user and password; shows neither."""

    user: str = field(repr=False)
    password: str = field(repr=False)

    def authorization(self) -> str:
        """Give the header that proves them."""
        return "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")


@dataclass(frozen=True, slots=True)
class RpcTarget:
    """A daemon: its IP address, of either family and without brackets, its RPC port, and how to be let in."""

    host: str
    port: int
    credentials: Credentials


class AddedNode(msgspec.Struct, frozen=True):
    """An entry of a daemon's list: the string as it was added, and whether there is an outbound connection under it."""

    addednode: str
    connected: bool


# msgspec looks a type over when it is first used, which two threads must not do at once.
msgspec.json.Decoder(AddedNode)


class RpcClient:
    """Calls daemons; every method may be used from any thread and raises an `RpcFailure` where there is no result.

    Each call waits for one of `concurrency` slots, and of `per_daemon` ones of its daemon, and ends within the limits
    of its method, in seconds; `clock` measures calls for the observer and the age of idle connections.
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
        observe: Observer | None = None,
    ) -> None:
        """Connect to nobody yet; `default` is the daemon of calls that name none."""
        self._default = default
        self._clock = clock or SystemClock()
        self._http = http or PooledHttp(self._clock)
        self._connect, self._timeout, self._onetry = connect_timeout, timeout, onetry_timeout
        self._slots = Slots(concurrency, per_daemon)
        self._observe = observe
        self._numbers = itertools.count(1)

    def call(self, target: RpcTarget | None, method: str, *params: Any) -> Any:
        """Call one method and give its result."""
        return self._call(target, method, params, self._timeout)

    def batch(self, target: RpcTarget | None, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """Send calls together, which the daemon runs one after another; for each, in order, its result or `RpcFailure`.

        Raises what befell the batch as a whole. Never put several `onetry` in one: each may take seconds.
        """
        if not calls:
            return []
        numbers = [next(self._numbers) for _ in calls]
        content = [
            encoding.request(number, method, params) for number, (method, params) in zip(numbers, calls, strict=True)
        ]
        methods = [method for method, _ in calls]
        return self._exchange(target, methods, content, self._timeout, lambda answer: encoding.results(answer, numbers))

    def added_nodes(self, target: RpcTarget | None = None) -> list[AddedNode]:
        """Give the nodes that the daemon was told of, in order of their adding."""
        found = self.call(target, "getaddednodeinfo")
        try:
            return msgspec.convert(found, list[AddedNode])
        except msgspec.ValidationError:
            raise Protocol("the answer is no list of added nodes") from None

    def add_node(self, target: RpcTarget | None, address: str) -> None:
        """Add to the daemon's list; an `RpcError` whose `is_already_added` says that it was there."""
        self.call(target, "addnode", address, "add")

    def remove_node(self, target: RpcTarget | None, address: str) -> None:
        """Remove from the list, by the string that was added; an `RpcError` with `is_not_added` where it was not."""
        self.call(target, "addnode", address, "remove")

    def onetry(self, target: RpcTarget | None, address: str) -> None:
        """Have the daemon dial at once, whether it succeeds or not; takes 5 s where packets are swallowed."""
        self._call(target, "addnode", (address, "onetry"), self._onetry)

    def disconnect(self, target: RpcTarget | None, address: str) -> None:
        """End a connection, by the string that was added; an `RpcError` with `is_not_connected` where there is none."""
        self.call(target, "disconnectnode", address)

    def close(self) -> None:
        """Send no call any more; those under way end within their limits, those that wait raise `Closed`."""
        self._slots.close()
        self._http.close()

    def _call(self, target: RpcTarget | None, method: str, params: Sequence[Any], limit: float) -> Any:
        number = next(self._numbers)
        content = encoding.request(number, method, params)
        (found,) = self._exchange(target, [method], content, limit, lambda answer: [encoding.result(answer, number)])
        return found

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
        body = encoding.encode(content)
        headers = {"Authorization": daemon.credentials.authorization(), "Content-Type": "application/json"}
        with self._slots.one(daemon.host, daemon.port):
            started, outcomes = self._clock.now(), ["error"] * len(methods)
            try:
                status, answer = self._http.post(
                    daemon.host, daemon.port, body, headers, connect=self._connect, answer=limit
                )
                found = read(encoding.decode(status, answer))
                outcomes = [one.reason if isinstance(one, RpcFailure) else "ok" for one in found]
                return found
            except RpcFailure as failure:
                outcomes = [failure.reason] * len(methods)
                raise
            finally:
                if self._observe is not None:
                    seconds = self._clock.now() - started
                    for method, outcome in zip(methods, outcomes, strict=True):
                        self._observe(method, outcome, seconds)
