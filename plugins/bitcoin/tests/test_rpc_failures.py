"""The RPC client with daemons whose answers are invalid, late or missing."""

from __future__ import annotations

import gzip
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_bitcoin.rpc import errors
from ctrlhost_bitcoin.rpc.client import Credentials, RpcClient, RpcTarget

from examples.bitcoind.fake_daemon import Fails, FakeDaemon, Raw, Reply, Silent, Slow
from examples.bitcoind.fake_servers import FakeDaemons
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlhost.testing import ManualClock

behaviour = pytest.mark.behaviour
NOT_FOUND = b'{"result":null,"error":{"code":-32601,"message":"Method not found"},"id":1}\n'
FULL = b"Work queue depth exceeded"
HUGE = b'{"result":"' + b"a" * (10 << 20) + b'","id":1}'
ANSWER = b'{"jsonrpc":"2.0","result":1,"id":1}'


@pytest.fixture
def make() -> Iterator[Callable[..., RpcClient]]:
    clients: list[RpcClient] = []

    def client(**options: Any) -> RpcClient:
        clients.append(RpcClient(**{"timeout": 5, **options}))
        return clients[-1]

    yield client
    for rpc in clients:
        rpc.close()


def at(daemon: FakeDaemon, password: str = "") -> RpcTarget:
    return RpcTarget(daemon.host, daemon.port, Credentials(daemon.user, password or daemon.password))


@behaviour("bitcoin/B29")
@pytest.mark.parametrize(
    ("behaviour", "reason", "code"),
    [
        pytest.param(Reply(401), "Unauthorized", None, id="401 with an empty body"),
        pytest.param(Reply(403), "Forbidden", None, id="403"),
        pytest.param(Fails(-8, "no"), "RpcError", -8, id="an error with 200"),
        pytest.param(Fails(-8, "no", legacy=True), "RpcError", -8, id="an error with 500"),
        pytest.param(Reply(404, NOT_FOUND), "RpcError", -32601, id="an error with 404"),
        pytest.param(Fails(-28, "Loading banlist…"), "WarmingUp", -28, id="warming up"),
        pytest.param(Fails(-28, "Loading banlist…", legacy=True), "WarmingUp", -28, id="warming up with 500"),
        pytest.param(Reply(503, FULL, {"Content-Type": "text/html"}), "Busy", None, id="503"),
        pytest.param(Reply(503, b"<html>stopping</html>", {"Connection": "close"}), "Busy", None, id="stopping"),
        pytest.param(Reply(200, b"<html><body>welcome</body></html>"), "Protocol", None, id="HTML"),
        pytest.param(Reply(200, ANSWER[:-5]), "Protocol", None, id="cut JSON"),
        pytest.param(Reply(200, ANSWER.replace(b":1}", b":2}")), "Protocol", None, id="another number"),
        pytest.param(Reply(200, ANSWER.replace(b":1}", b':"1"}')), "Protocol", None, id="a number as text"),
        pytest.param(Reply(200, ANSWER.replace(b":1}", b":true}")), "Protocol", None, id="a number as truth"),
        pytest.param(Reply(200, b'{"result":1,"id":null}'), "Protocol", None, id="no number"),
        pytest.param(Reply(200, b'{"id":1}'), "Protocol", None, id="neither result nor error"),
        pytest.param(Reply(200, b'{"error":"bad","id":1}'), "Protocol", None, id="an error that is none"),
        pytest.param(Reply(200, b'{"error":{"code":"x"},"id":1}'), "Protocol", None, id="a code that is none"),
        pytest.param(Reply(200, b'["result"]'), "Protocol", None, id="a list"),
        pytest.param(Reply(200, b'{"result":"\xff","id":1}'), "Protocol", None, id="no UTF-8"),
        pytest.param(Reply(200, b"[" * 200_000), "Protocol", None, id="deeper than any stack"),
        pytest.param(Reply(200), "Protocol", None, id="200 without a body"),
        pytest.param(Reply(204), "Protocol", None, id="204"),
        pytest.param(Reply(404), "Protocol", None, id="404 without a body"),
        pytest.param(Reply(200, gzip.compress(ANSWER), {"Content-Encoding": "gzip"}), "Protocol", None, id="gzip"),
        pytest.param(Reply(302, ANSWER, {"Location": "http://127.0.0.1:9/"}), "Protocol", None, id="redirected"),
        pytest.param(Reply(200, HUGE), "Protocol", None, id="10 MiB"),
        pytest.param(Raw((b"SSH-2.0-OpenSSH_9.2\r\n",)), "Protocol", None, id="not HTTP"),
        pytest.param(Raw((b"\x00\xff" * 70_000,)), "Protocol", None, id="binary junk"),
        pytest.param(Raw((b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 500,)), "Protocol", None, id="headers without end"),
        pytest.param(
            Raw((b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + ANSWER[:-1],)), "Protocol", None, id="cut body"
        ),
        pytest.param(
            Raw((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",)), "Protocol", None, id="bad chunks"
        ),
        pytest.param(Raw(), "Refused", None, id="hung up"),
    ],
)
def test_each_answer_has_its_class(
    make: Any, daemon: FakeDaemon, behaviour: Any, reason: str, code: int | None
) -> None:
    daemon.script(behaviour)
    with pytest.raises(errors.RpcFailure) as caught:
        make().call(at(daemon), "getnetworkinfo")
    assert caught.value.reason == reason
    assert getattr(caught.value, "code", None) == code
    assert len(str(caught.value)) < 300


def test_a_wrong_password_is_refused_without_showing_it(make: Any, daemon: FakeDaemon) -> None:
    with pytest.raises(errors.Unauthorized) as caught:
        make().call(at(daemon, "not-the-one"), "uptime")
    assert "not-the-one" not in f"{caught.value!r} {caught.value}"
    assert daemon.calls == []


def test_a_body_without_a_length_is_cut_off_at_the_limit(make: Any, daemon: FakeDaemon) -> None:
    piece = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
    daemon.script(Raw((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[piece] * 40)))
    with pytest.raises(errors.Protocol, match="larger than 8 MiB"):
        make().call(at(daemon), "uptime")


def test_a_body_of_almost_the_limit_is_read(make: Any, daemon: FakeDaemon) -> None:
    text = "a" * (8 * 1024 * 1024 - 1000)
    daemon.script(Reply(200, json.dumps({"result": text, "id": 1}).encode()))
    assert make().call(at(daemon), "uptime") == text


def test_a_closed_port_is_refused_and_a_name_is_never_resolved(make: Any, daemons: FakeDaemons) -> None:
    daemon = daemons.start("127.0.0.1", 0)
    daemons.down(daemon)
    for host in (daemon.host, "localhost", "peer.example", "", "256.1.1.1", "a" * 300, "ä.example"):
        with pytest.raises(errors.Refused):
            make().call(RpcTarget(host, daemon.port, Credentials("user", "password")), "uptime")


def test_an_answer_that_does_not_come_or_never_ends_is_a_timeout(make: Any, daemon: FakeDaemon) -> None:
    drip = Raw((b"HTTP/1.1 200 OK\r\n", *[b"a: b\r\n"] * 90), pause=0.02)
    late = Raw((b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", *[b"a"] * 500), pause=0.02)
    for behaviour in (Silent(), drip, late):
        daemon.script(behaviour, times=1)
        with pytest.raises(errors.Timeout):
            make(timeout=0.3).call(at(daemon), "uptime")


def test_a_listener_whose_queue_is_full_is_a_timeout_of_the_connection(make: Any) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        filling = []
        for _ in range(4):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(listener.getsockname())
            filling.append(connection)
        target = RpcTarget("127.0.0.1", listener.getsockname()[1], Credentials("user", "password"))
        with pytest.raises(errors.Timeout):
            make(connect_timeout=0.2, timeout=0.2).call(target, "uptime")
        for connection in filling:
            connection.close()


@behaviour("bitcoin/B32")
def test_an_idle_connection_that_the_daemon_closed_is_replaced_unseen(
    make: Any, daemons: FakeDaemons, daemon: FakeDaemon
) -> None:
    client = make()
    client.call(at(daemon), "getnetworkinfo")
    client.call(at(daemon), "getnetworkinfo")
    assert daemons.connections == 1
    daemons.hang_up(daemon)
    client.add_node(at(daemon), "10.0.0.3")
    assert daemon.called() == ["getnetworkinfo", "getnetworkinfo", "addnode"]
    assert daemons.connections == 2
    # Cut after the request instead of before it: one retry only.
    daemon.script(Raw(), times=1)
    client.call(at(daemon), "getpeerinfo")
    assert daemons.connections == 3
    daemon.script(Raw())
    with pytest.raises(errors.Refused):
        client.call(at(daemon), "getpeerinfo")
    assert daemon.called().count("getpeerinfo") == 4


@behaviour("bitcoin/B32")
def test_dialling_has_a_longer_limit_than_other_calls(make: Any, daemon: FakeDaemon) -> None:
    # In between the limits, like the 5 s of a real daemon's dialling.
    client = make(timeout=0.2, onetry_timeout=5)
    daemon.script(Slow(0.5))
    client.onetry(at(daemon), "10.0.0.3")
    assert daemon.called("addnode") == [["10.0.0.3", "onetry"]]
    with pytest.raises(errors.Timeout):
        client.call(at(daemon), "getnetworkinfo")


def test_a_failed_exchange_leaves_no_connection_to_reuse(make: Any, daemons: FakeDaemons, daemon: FakeDaemon) -> None:
    client = make(timeout=0.3)
    for behaviour in (Slow(0.6), Reply(200, HUGE), Raw((b"junk\r\n",))):
        daemon.script(behaviour, times=1)
        with pytest.raises(errors.RpcFailure):
            client.call(at(daemon), "getnetworkinfo")
        before = daemons.connections
        client.call(at(daemon), "getnetworkinfo")
        assert daemons.connections == before + 1
        daemons.hang_up(daemon)


def test_connections_idle_for_too_long_are_not_used(
    make: Any, daemons: FakeDaemons, daemon: FakeDaemon, manual_clock: ManualClock
) -> None:
    client = make(clock=manual_clock)
    client.call(at(daemon), "getnetworkinfo")
    manual_clock.advance(24)
    client.call(at(daemon), "getnetworkinfo")
    assert daemons.connections == 1
    manual_clock.advance(26)
    client.call(at(daemon), "getnetworkinfo")
    assert daemons.connections == 2


def test_only_so_many_calls_run_at_a_time_for_each_daemon_and_in_all(make: Any, daemons: FakeDaemons) -> None:
    first, second = daemons.start("127.0.0.1", 0), daemons.start("127.0.0.2", 0)
    for daemon in (first, second):
        daemon.script(Silent())
    client = make(concurrency=3, per_daemon=2, timeout=20)
    with ThreadPoolExecutor(8) as pool:
        waiting = [
            pool.submit(client.call, at(daemon), "uptime") for daemon in (first, first, first, first, second, second)
        ]
        eventually(lambda: len(first.calls) == 2 and len(second.calls) == 1)
        # Waiting calls fail at once, those in flight end with their connections.
        client.close()
        for daemon in (first, second):
            daemons.down(daemon)
        reasons = sorted(future.exception(30).reason for future in waiting)  # type: ignore[union-attr]
    assert reasons == ["Closed"] * 3 + ["Refused"] * 3
