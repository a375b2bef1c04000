"""Where servers listen."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
from collections.abc import Iterator

import pytest

from ctrlhost import ConfigError
from ctrlhost.server import addresses
from ctrlhost.server.addresses import address_of, bind, is_loopback

behaviour = pytest.mark.behaviour


@pytest.fixture
def listening() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as opened:
        yield opened


def bound(listening: contextlib.ExitStack, address: str) -> list[socket.socket]:
    return [listening.enter_context(listener) for listener in bind(address, "host.listen")]


def answers(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), 30):
        return True
    return False


@pytest.mark.parametrize("address", [":0", "[::]:0"])
def test_all_interfaces_are_those_of_both_versions(listening, address: str) -> None:
    (listener,) = bound(listening, address)
    port = listener.getsockname()[1]
    assert answers("127.0.0.1", port)
    assert answers("::1", port)
    assert address_of(listener) == f"[::]:{port}"
    assert not is_loopback(listener)


def test_localhost_is_both_loopbacks(listening) -> None:
    four, six = bound(listening, "localhost:0")
    assert four.getsockname()[1] == six.getsockname()[1]
    assert address_of(four).startswith("127.0.0.1:")
    assert address_of(six).startswith("[::1]:")
    assert is_loopback(four)
    assert is_loopback(six)


def test_a_port_that_one_loopback_lacks_is_in_use(listening) -> None:
    (six,) = bound(listening, "[::1]:0")
    port = six.getsockname()[1]
    with pytest.raises(ConfigError, match=f"host.listen: port {port} is in use"):
        bind(f"localhost:{port}", "host.listen")
    assert not answers("127.0.0.1", port)


class Without(socket.socket):
    """A socket of a kernel without IPv6."""

    def __init__(self, family: int = socket.AF_INET, *arguments: int, **more: int) -> None:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        super().__init__(family, *arguments, **more)


@behaviour("operations/OP17")
@pytest.mark.parametrize("address", [":0", "[::]:0"])
def test_without_ipv6_all_interfaces_are_those_of_ipv4(
    listening, monkeypatch, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    monkeypatch.setattr(addresses.socket, "socket", Without)
    caplog.set_level(logging.INFO, "ctrlhost.server")
    (listener,) = bound(listening, address)
    assert listener.family == socket.AF_INET
    assert address_of(listener).startswith("0.0.0.0:")
    assert answers("127.0.0.1", listener.getsockname()[1])
    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert "listening on IPv4 alone" in record.message


def test_without_ipv6_localhost_is_the_loopback_of_ipv4(listening, monkeypatch) -> None:
    monkeypatch.setattr(addresses.socket, "socket", Without)
    (listener,) = bound(listening, "localhost:0")
    assert address_of(listener).startswith("127.0.0.1:")
