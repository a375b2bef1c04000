"""The RPC client: its requests, and how it reads answers and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_bitcoin.rpc import errors
from ctrlhost_bitcoin.rpc.client import AddedNode, Credentials, RpcClient, RpcTarget
from ctrlhost_bitcoin.rpc.errors import RpcError

from examples.bitcoind.fake_daemon import Fails, FakeDaemon, FakeHttp, Reply, Slow
from examples.bitcoind.fake_servers import FakeDaemons

if TYPE_CHECKING:
    from collections.abc import Iterator

behaviour = pytest.mark.behaviour
HERE = RpcTarget("127.0.0.1", 18332, Credentials("user", "password"))


@pytest.fixture
def client() -> Iterator[RpcClient]:
    client = RpcClient(timeout=5)
    yield client
    client.close()


def at(daemon: FakeDaemon) -> RpcTarget:
    return RpcTarget(daemon.host, daemon.port, Credentials(daemon.user, daemon.password))


@behaviour("bitcoin/U11", "bitcoin/U18")
def test_a_target_keeps_what_it_was_given_and_shows_no_password() -> None:
    assert (HERE.host, HERE.port) == ("127.0.0.1", 18332)
    assert (HERE.credentials.user, HERE.credentials.password) == ("user", "password")
    assert "password" not in repr(Credentials("u", "secret-password")).replace("Credentials", "")
    assert "user" not in repr(HERE)


@behaviour("bitcoin/U12", "bitcoin/U19")
def test_a_client_calls_its_default_daemon_without_a_target(daemons: FakeDaemons) -> None:
    ours, other = daemons.start("127.0.0.1", 0), daemons.start("127.0.0.2", 0)
    client = RpcClient(at(ours))
    client.add_node(None, "10.0.0.3")
    client.add_node(at(other), "10.0.0.4")
    assert (ours.added, other.added) == (["10.0.0.3"], ["10.0.0.4"])
    client.close()
    with pytest.raises(ValueError, match="no default"):
        RpcClient().call(None, "uptime")


@behaviour("bitcoin/U13", "bitcoin/U20")
def test_a_client_can_be_given_another_http_layer() -> None:
    daemon = FakeDaemon("10.0.0.1")
    client = RpcClient(RpcTarget("10.0.0.1", 18332, Credentials("user", "password")), http=FakeHttp(daemon))
    client.add_node(None, "10.0.0.3")
    assert daemon.added == ["10.0.0.3"]
    with pytest.raises(errors.Refused):
        client.call(RpcTarget("10.0.0.2", 18332, HERE.credentials), "uptime")


@behaviour("bitcoin/U14")
def test_a_result_of_null_is_a_result(client: RpcClient, daemon: FakeDaemon) -> None:
    assert client.call(at(daemon), "getpeerinfo") is None
    daemon.script(Reply(body=b'{"result":null,"error":null,"id":2}'))
    assert client.call(at(daemon), "getpeerinfo") is None


@behaviour("bitcoin/U15")
def test_added_nodes_are_read_in_order_with_whether_they_are_connected(client: RpcClient, daemon: FakeDaemon) -> None:
    daemon.added, daemon.links = ["10.0.0.3", "peer.example:18444"], {"10.0.0.3"}
    assert client.added_nodes(at(daemon)) == [AddedNode("10.0.0.3", True), AddedNode("peer.example:18444", False)]


@behaviour("bitcoin/U16", "bitcoin/U17")
def test_a_node_is_added_and_removed(client: RpcClient, daemon: FakeDaemon) -> None:
    client.add_node(at(daemon), "10.0.0.5")
    assert daemon.added == ["10.0.0.5"]
    daemon.added = ["10.0.0.3"]
    client.remove_node(at(daemon), "10.0.0.3")
    assert daemon.added == []


def test_errors_of_the_list_are_distinguished_by_their_codes(client: RpcClient, daemon: FakeDaemon) -> None:
    client.add_node(at(daemon), "10.0.0.5")
    with pytest.raises(RpcError) as twice:
        client.add_node(at(daemon), "10.0.0.5")
    with pytest.raises(RpcError) as absent:
        client.remove_node(at(daemon), "10.0.0.6")
    with pytest.raises(RpcError) as apart:
        client.call(at(daemon), "disconnectnode", "10.0.0.6")
    codes = [error.value.code for error in (twice, absent, apart)]
    assert codes == [errors.ALREADY_ADDED, errors.NOT_ADDED, errors.NOT_CONNECTED]


def test_a_daemon_dials_and_disconnects_on_request(client: RpcClient, daemons: FakeDaemons) -> None:
    first, second = daemons.start("127.0.0.1", 0, dials=False), daemons.start("127.0.0.2", 0)
    client.add_node(at(first), second.host)
    assert client.added_nodes(at(first)) == [AddedNode(second.host, False)]
    client.onetry(at(first), second.host)
    assert client.added_nodes(at(first)) == [AddedNode(second.host, True)]
    client.call(at(first), "disconnectnode", second.host)
    assert client.added_nodes(at(first)) == [AddedNode(second.host, False)]


def test_a_malformed_list_of_added_nodes_is_a_protocol_failure(client: RpcClient, daemon: FakeDaemon) -> None:
    for shape in ("null", "{}", "[1]", '[{"addednode":5,"connected":true}]', '[{"addednode":"a","connected":"yes"}]'):
        client = RpcClient(http=FakeHttp(daemon))
        daemon.script(Reply(body=f'{{"result":{shape},"id":1}}'.encode()), times=1)
        with pytest.raises(errors.Protocol):
            client.added_nodes(at(daemon))


@behaviour("bitcoin/B30")
def test_requests_are_json_rpc_two_with_typed_parameters(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    client = RpcClient(timeout=5)
    daemon.user, daemon.password = "käthe", "pass wörd#1 €"
    client.call(at(daemon), "getnetworkinfo")
    with pytest.raises(RpcError):
        client.call(at(daemon), "generate", 5, True, "5", None)
    first, second = daemon.calls
    assert {**first.content, "id": 0} == {"jsonrpc": "2.0", "id": 0, "method": "getnetworkinfo", "params": []}
    assert second.content["params"] == [5, True, "5", None]
    assert [type(param) for param in second.content["params"]] == [int, bool, str, type(None)]
    assert type(first.content["id"]) is int
    assert first.headers[""] == "POST / HTTP/1.1"
    assert first.headers["host"] == f"127.0.0.1:{daemon.port}"
    assert first.headers["content-type"] == "application/json"
    # The daemon accepted the header, which it compares with that of the UTF-8 text.
    assert daemon.logins_refused == 0
    client.close()


@behaviour("bitcoin/B26")
def test_an_address_of_version_six_is_called_in_brackets(client: RpcClient, daemons: FakeDaemons) -> None:
    try:
        daemon = daemons.start("::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    client.call(at(daemon), "getnetworkinfo")
    assert daemon.calls[0].headers["host"] == f"[::1]:{daemon.port}"


@behaviour("bitcoin/B31")
def test_one_failing_item_of_a_batch_leaves_the_others(client: RpcClient, daemon: FakeDaemon) -> None:
    daemon.added = ["10.0.0.3"]
    added, twice, unknown, listed = client.batch(
        at(daemon),
        [
            ("addnode", ["10.0.0.4", "add"]),
            ("addnode", ["10.0.0.3", "add"]),
            ("bogus", []),
            ("getaddednodeinfo", []),
        ],
    )
    assert added is None
    assert twice.code == errors.ALREADY_ADDED
    assert unknown.code == -32601
    assert [peer["addednode"] for peer in listed] == ["10.0.0.3", "10.0.0.4"]
    assert len({call.content["id"] for call in daemon.calls}) == 4
    assert client.batch(at(daemon), []) == []


@behaviour("bitcoin/B31")
def test_repeated_and_missing_ids_spoil_only_their_items(daemon: FakeDaemon) -> None:
    items = (
        '{"result":"c","id":3},{"result":"b","id":2},{"result":"x","id":2},{"result":"?","id":true},7,'
        '{"result":null,"error":{"code":-32600,"message":"Invalid Request object"},"id":4},{"id":5}'
    )
    daemon.script(Reply(body=f"[{items}]".encode()))
    client = RpcClient(http=FakeHttp(daemon))
    first, second, third, fourth, fifth = client.batch(at(daemon), [("uptime", [])] * 5)
    assert isinstance(first, errors.Protocol)
    assert isinstance(second, errors.Protocol)
    assert third == "c"
    assert (fourth.reason, fourth.code) == ("RpcError", -32600)
    assert isinstance(fifth, errors.Protocol)


def test_an_error_for_a_whole_batch_is_raised(daemon: FakeDaemon) -> None:
    client = RpcClient(http=FakeHttp(daemon))
    daemon.script(Reply(500, b'{"result":null,"error":{"code":-32700,"message":"Parse error"},"id":null}'), times=1)
    with pytest.raises(RpcError) as whole:
        client.batch(at(daemon), [("uptime", [])])
    assert whole.value.code == -32700
    for body in (b'"text"', b"7", b'{"result":1,"id":1}', b'{"result":1,"id":-1}'):
        daemon.script(Reply(body=body), times=1)
        with pytest.raises(errors.Protocol):
            client.batch(at(daemon), [("uptime", [])])


def test_every_call_is_observed_with_its_outcome(daemon: FakeDaemon) -> None:
    seen: list[tuple[str, str]] = []
    client = RpcClient(http=FakeHttp(daemon), observe=lambda method, outcome, seconds: seen.append((method, outcome)))
    daemon.script(Fails(-28, "Loading banlist…"), "getnetworkinfo", times=1)
    daemon.script(Slow(60), "addnode", times=1)
    for call in (("getnetworkinfo",), ("addnode", "10.0.0.4", "add"), ("getpeerinfo",)):
        try:
            client.call(at(daemon), *call)
        except errors.RpcFailure:
            continue
    client.batch(at(daemon), [("getpeerinfo", []), ("addnode", ["10.0.0.4", "remove"])])
    outcomes: list[Any] = [("getnetworkinfo", "WarmingUp"), ("addnode", "Timeout"), ("getpeerinfo", "ok")]
    assert seen == [*outcomes, ("getpeerinfo", "ok"), ("addnode", "RpcError")]
