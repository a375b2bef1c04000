"""Connections and answers that do not come in time: each bound says where the request stood."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ctrlhost.client import Client
from ctrlhost.config.load import Configuration
from ctrlhost.errors import ConfigError, TransportError
from ctrlhost.host.host import Host
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.kubeconfig.connection import from_url
from ctrlhost.transport.native import NativeTransport
from tests.support.byte_servers import ByteServer
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.stub_api_server import Answer, StubApiServer, serve
from tests.support.stub_http import Handler
from tests.support.tls_files import Authority
from tests.support.waiting import eventually

BOUND = 1.0
POD = "/api/v1/namespaces/default/pods/a"
PODS = "/api/v1/pods"


class Stops(Answer):
    """The beginning of an answer, and nothing more."""

    def __init__(self, begin: bytes) -> None:
        self.begin = begin

    def send(self, handler: Handler) -> None:
        handler.wfile.write(self.begin)
        handler.stub.stopping.wait()
        handler.drop()


class Drips(Stops):
    """An answer whose body comes byte by byte."""

    def send(self, handler: Handler) -> None:
        handler.wfile.write(self.begin)
        while not handler.stub.stopping.wait(0.05):
            handler.wfile.write(b" ")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def at(authority: Authority) -> Iterator[Callable[[str], str]]:
    """Start the server of a case, and return its URL."""
    with ExitStack() as stack:

        def start(case: str) -> str:
            if case == "connection":
                dropping = ByteServer()
                stack.callback(dropping.crowd())
                return dropping.url.replace("http:", "https:")
            if case == "TLS handshake":
                return stack.enter_context(ByteServer()).url.replace("http:", "https:")
            context = authority.server_context()
            if case == "answer":
                return stack.enter_context(ByteServer(tls=context)).url
            server = stack.enter_context(StubApiServer(tls=context))
            answer = {"head": Stops(HEAD[:30]), "body": Drips(HEAD)}[case]
            server.on("GET", POD, answer)
            # The bound of a stream is for silence: what drips without end is no reason to end a watch.
            serve(server, PODS, [Stops(HEAD + b"{") if case == "body" else answer], [])
            return server.url

        yield start


CASES = [
    ("connection", "no connection in time", "no connection in time"),
    (
        "TLS handshake",
        "no connection in time: the TLS handshake was not complete",
        "no connection in time: the TLS handshake was not complete",
    ),
    ("answer", "no response in time", "no response in time"),
    ("head", "the response was not complete in time", "the response was not complete in time"),
    ("body", "the response was not complete in time", "no data for 1 s"),
]


@pytest.mark.behaviour("scale/SC12")
@pytest.mark.parametrize(("case", "text", "_"), CASES, ids=[case for case, *_ in CASES])
def test_a_call_ends_at_its_timeout_and_says_where_it_was(
    at: Callable[[str], str], authority: Authority, case: str, text: str, _: str
) -> None:
    client = Client(at(case), ca=authority.pem)
    began = time.monotonic()
    with pytest.raises(TransportError) as caught:
        client.transport.request("GET", POD, timeout=BOUND)
    assert time.monotonic() - began >= BOUND
    assert str(caught.value).endswith(f": {text}")
    assert caught.value.sent is (case not in ("connection", "TLS handshake"))


@pytest.mark.behaviour("scale/SC12")
@pytest.mark.parametrize(("case", "_", "text"), CASES, ids=[case for case, *_ in CASES])
def test_an_informer_ends_its_list_at_the_bounds_and_says_where_it_was(
    at: Callable[[str], str], authority: Authority, case: str, _: str, text: str
) -> None:
    client = Client(at(case), ca=authority.pem)
    errors: list[tuple[float, Exception]] = []
    factory = InformerFactory(
        client,
        options=ReflectorOptions(watch_list=False, connect_timeout=BOUND, list_timeout=BOUND, idle_timeout=BOUND),
        on_error=lambda _, error: errors.append((time.monotonic(), error)),
    )
    informer = factory.informer("v1", "Pod")
    began = time.monotonic()
    factory.start()
    eventually(lambda: bool(errors), 5 * BOUND)
    ended, error = errors[0]
    assert ended - began >= BOUND
    assert isinstance(error, TransportError)
    assert str(error).partition("?")[0].rpartition("/")[2].startswith("pods")
    assert str(error).endswith(f": {text}")
    assert not informer.has_synced
    factory.stop()


@pytest.mark.parametrize("case", ["connection", "TLS handshake"])
def test_a_connection_has_a_bound_of_its_own(at: Callable[[str], str], authority: Authority, case: str) -> None:
    connection = from_url(at(case), None, authority.pem, True)
    transport = NativeTransport(connection, connect_timeout=0.2)
    for sender in (transport, transport.separate()):
        with pytest.raises(TransportError, match="no connection in time") as caught:
            sender.request("GET", POD, timeout=60)
        assert not caught.value.sent
        with pytest.raises(TransportError, match="no connection in time"):
            sender.stream(PODS)


def test_the_host_connects_within_the_time_of_its_settings(
    at: Callable[[str], str], tmp_path: Path, authority: Authority
) -> None:
    cluster = {"server": at("TLS handshake"), "insecure-skip-tls-verify": True}
    config = written(tmp_path, kubeconfig(cluster))
    settings = [f"host.kubeconfig={config}", "host.listen=", "client.connect_timeout=200ms"]
    host = Host(configuration=Configuration.gather(assignments=settings))
    try:
        host.prepare()
        host.set_up()
        assert host.client is not None
        with pytest.raises(TransportError, match="no connection in time: the TLS handshake was not complete"):
            host.client.transport.request("GET", POD, timeout=60)
    finally:
        host.stop()


# A part of scale SC113.
@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("client.connect_timeout=0", "client: `connect_timeout` must be positive"),
        ("client.connect_timeout=-1s", "client.connect_timeout"),
        ("client.connect_timeout=soon", "client.connect_timeout"),
        ("client.conect_timeout=1s", "client.conect_timeout: unknown setting"),
    ],
)
def test_an_invalid_time_ends_the_start_with_the_name_of_the_setting(assignment: str, message: str) -> None:
    host = Host(configuration=Configuration.gather(assignments=["host.listen=", assignment]))
    with pytest.raises(ConfigError) as caught:
        host.start()
    host.stop()
    assert message in str(caught.value)
    assert f"--set {assignment.partition('=')[0]}" in str(caught.value)


def test_without_a_setting_the_time_is_that_of_whole_calls() -> None:
    assert Configuration.gather().client.connect_timeout == 30
