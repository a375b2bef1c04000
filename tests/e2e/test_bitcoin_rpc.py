"""The plugin's RPC client against a real daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_bitcoin.rpc import errors
from ctrlhost_bitcoin.rpc.client import AddedNode, Credentials, RpcClient, RpcTarget
from ctrlhost_bitcoin.rpc.errors import RpcError

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from examples.bitcoind.daemon import Bitcoind

behaviour = pytest.mark.behaviour


@pytest.fixture
def daemon(start_daemon: Callable[..., Bitcoind]) -> Bitcoind:
    return answering(start_daemon())


@pytest.fixture
def client(daemon: Bitcoind) -> Iterator[RpcClient]:
    client = RpcClient(daemon.target)
    yield client
    client.close()


def answering(daemon: Bitcoind) -> Bitcoind:
    """Wait until a daemon has started."""
    client = RpcClient(daemon.target)

    def answers() -> bool:
        try:
            client.call(None, "uptime")
        except (errors.Refused, errors.WarmingUp):
            assert daemon.runs, daemon.log
            return False
        return True

    eventually(answers, 30, "an answer of the daemon")
    client.close()
    return daemon


@behaviour("bitcoin/U18", "bitcoin/U19", "bitcoin/U21", "bitcoin/U22")
def test_a_method_returns_its_result_and_an_unknown_one_its_error(client: RpcClient) -> None:
    network = client.call(None, "getnetworkinfo")
    assert network["networkactive"] is True
    assert network["connections"] == 0
    with pytest.raises(RpcError) as caught:
        client.call(None, "getnetworkinfox")
    assert (caught.value.code, caught.value.reason) == (-32601, "RpcError")
    results = client.batch(None, [("uptime", []), ("getnetworkinfox", []), ("getaddednodeinfo", [])])
    assert [type(result) for result in results] == [int, RpcError, list]


@behaviour("bitcoin/U20", "bitcoin/U23")
def test_the_target_of_a_call_is_called_and_not_the_default(daemon: Bitcoind) -> None:
    nobody = RpcTarget("127.0.0.1", 9, Credentials("user", "password"))
    client = RpcClient(nobody)
    client.add_node(daemon.target, "127.0.0.3")
    assert client.added_nodes(daemon.target) == [AddedNode("127.0.0.3", False)]
    client.remove_node(daemon.target, "127.0.0.3")
    assert client.added_nodes(daemon.target) == []
    with pytest.raises(errors.Refused):
        client.added_nodes()
    client.close()


@behaviour("bitcoin/U24")
def test_adding_an_entry_again_has_its_own_error(client: RpcClient) -> None:
    client.add_node(None, "127.0.0.3")
    with pytest.raises(RpcError) as twice:
        client.add_node(None, "127.0.0.3")
    assert twice.value.code == errors.ALREADY_ADDED
    client.remove_node(None, "127.0.0.3")
    with pytest.raises(RpcError) as gone:
        client.remove_node(None, "127.0.0.3")
    assert gone.value.code == errors.NOT_ADDED
    with pytest.raises(RpcError) as apart:
        client.call(None, "disconnectnode", "127.0.0.3")
    assert apart.value.code == errors.NOT_CONNECTED


def test_two_daemons_are_connected_at_once_and_disconnected_again(client: RpcClient, start_daemon: Any) -> None:
    other = answering(start_daemon())
    client.add_node(None, other.host)
    client.onetry(None, other.host)
    eventually(lambda: client.added_nodes() == [AddedNode(other.host, True)])
    client.remove_node(None, other.host)
    client.call(None, "disconnectnode", other.host)
    eventually(lambda: client.call(None, "getnetworkinfo")["connections"] == 0)


def test_a_wrong_password_and_a_hanging_daemon_are_distinguished(daemon: Bitcoind) -> None:
    wrong = RpcTarget(daemon.host, daemon.target.port, Credentials("user", "wrong"))
    # The daemon delays the refusal.
    client = RpcClient()
    with pytest.raises(errors.Unauthorized):
        client.call(wrong, "uptime")
    client.close()
    client = RpcClient(timeout=0.3)
    daemon.hang()
    with pytest.raises(errors.Timeout):
        client.call(daemon.target, "uptime")
    client.close()
    daemon.resume()
    client = RpcClient()
    assert client.call(daemon.target, "uptime") is not None
    daemon.kill()
    with pytest.raises(errors.Refused):
        client.call(daemon.target, "uptime")
    client.close()
