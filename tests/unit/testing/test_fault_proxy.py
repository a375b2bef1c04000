"""The fault proxy of an API server: each fault from the view of the client."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost import Client, Expired, Forbidden, ServerError, TooManyRequests, TransportError, Unauthorized
from ctrlhost.cache import SharedInformer
from ctrlhost.testing import Fault, FaultProxy
from ctrlhost.testing.fault_proxy.http1 import error_frame
from tests.support import protobuf
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually
from tests.unit.testing.proxied import MAPS, Watch, list_maps


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Run a sandbox without controllers, so that nothing but the tests creates ConfigMaps."""
    with Sandbox(controllers=()) as server:
        yield server


@pytest.fixture
def direct(sandbox: Sandbox) -> Iterator[Client]:
    client = Client.load(sandbox.kubeconfig)
    yield client
    client.close()


def test_requests_pass_through_tls_without_a_fault(proxy: FaultProxy, client: Client, sandbox: Sandbox) -> None:
    assert proxy.url.startswith("https://")
    assert proxy.url != sandbox.url
    obj = client.create(config_map("a", text="ä" * 100_000))
    assert client.get("v1", "ConfigMap", "a", "default") == obj
    assert list_maps(client) == ["a"]
    watch = Watch(client)
    assert watch.frame()["object"]["data"] == obj["data"]
    client.patch("v1", "ConfigMap", "a", "default", {"data": {"text": "short"}})
    assert watch.frame()["type"] == "MODIFIED"
    client.delete("v1", "ConfigMap", "a", "default")
    assert watch.frame()["type"] == "DELETED"
    watch.stream.close()
    assert (proxy.total, proxy.log, proxy.counts) == (0, [], {})
    assert proxy.requests >= 6


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, Unauthorized),
        (403, Forbidden),
        (410, Expired),
        (429, TooManyRequests),
        (500, ServerError),
        (503, ServerError),
    ],
)
def test_an_injected_answer_is_a_status(proxy: FaultProxy, client: Client, status: int, error: type[Exception]) -> None:
    proxy.next(Fault.answer(status), verb="list")
    with pytest.raises(error) as raised:
        list_maps(client)
    assert raised.value.status == status  # type: ignore[attr-defined]
    assert list_maps(client) == []
    assert proxy.counts == {"answer": 1}


def test_an_injected_answer_may_have_retry_after(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.answer(429, retry_after=7))
    with pytest.raises(TooManyRequests) as raised:
        list_maps(client)
    assert raised.value.retry_after == 7


@pytest.mark.parametrize("fault", [Fault.refuse(), Fault.bad_tls()], ids=lambda fault: fault.kind)
def test_a_new_connection_fails_before_its_first_request(
    proxy: FaultProxy, client: Client, direct: Client, fault: Fault
) -> None:
    proxy.next(fault)
    with pytest.raises(TransportError):
        client.create(config_map("a"))
    assert direct.find("v1", "ConfigMap", "a", "default") is None
    assert proxy.counts == {fault.kind: 1}
    assert client.create(config_map("a"))


def test_a_request_that_is_reset_never_reaches_the_server(proxy: FaultProxy, client: Client, direct: Client) -> None:
    proxy.next(Fault.reset(), verb="create")
    with pytest.raises(TransportError):
        client.create(config_map("a"))
    assert direct.find("v1", "ConfigMap", "a", "default") is None


def test_an_answer_cut_in_its_headers_does_not_undo_the_write(
    proxy: FaultProxy, client: Client, direct: Client
) -> None:
    proxy.next(Fault.cut_headers(part=0.05), verb="create")
    with pytest.raises(TransportError):
        client.create(config_map("a"))
    assert direct.get("v1", "ConfigMap", "a", "default")


@pytest.mark.parametrize("fault", [Fault.cut(), Fault.truncate()], ids=lambda fault: fault.kind)
def test_a_cut_list_is_an_error_and_never_a_shorter_list(proxy: FaultProxy, client: Client, fault: Fault) -> None:
    for number in range(5):
        client.create(config_map(f"m{number}"))
    proxy.next(fault, verb="list")
    stream = client.transport.stream(MAPS, timeout=5, idle=5)
    body = b""
    try:
        while piece := stream.read():
            body += piece
        assert fault.kind == "truncate"
    except TransportError:
        assert fault.kind == "cut"
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)
    assert len(list_maps(client)) == 5


def test_a_delay_and_a_silence_last_as_configured(proxy: FaultProxy, client: Client) -> None:
    list_maps(client)
    proxy.next(Fault.stall())
    with pytest.raises(TransportError, match="in time"):
        list_maps(client, timeout=0.2)
    proxy.next(Fault.delay(0.05))
    assert list_maps(client) == []
    proxy.delay(0.05)
    assert list_maps(client) == []
    proxy.delay(0)
    assert proxy.counts == {"stall": 1, "delay": 1}


def test_a_watch_is_cut_within_the_configured_frame(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.cut(after=2, part=0.5), verb="watch")
    watch = Watch(client)
    for number in range(3):
        client.create(config_map(f"m{number}"))
    assert watch.names(2) == ["m0", "m1"]
    with pytest.raises(TransportError):
        watch.frame()


def test_a_watch_is_truncated_as_if_it_had_ended(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.truncate(part=0.5), verb="watch")
    watch = Watch(client)
    client.create(config_map("m0"))
    assert watch.frame() is None


def test_a_half_open_watch_delivers_nothing(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.half_open(after=1), verb="watch")
    watch = Watch(client)
    for number in range(2):
        client.create(config_map(f"m{number}"))
    assert watch.names(1) == ["m0"]
    watch.stream.set_idle(0.2)
    with pytest.raises(TransportError, match="no data for"):
        watch.frame()


def test_a_frame_is_repeated_and_the_watch_continues(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.duplicate(after=1), verb="watch")
    watch = Watch(client)
    for number in range(3):
        client.create(config_map(f"m{number}"))
    assert watch.names(4) == ["m0", "m1", "m1", "m2"]


def test_garbage_is_inserted_between_frames(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.garbage(), verb="watch")
    watch = Watch(client)
    client.create(config_map("m0"))
    with pytest.raises(json.JSONDecodeError):
        watch.frame()
    assert watch.names(1) == ["m0"]


def test_an_error_frame_ends_the_watch(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.error_frame(410), verb="watch")
    watch = Watch(client)
    client.create(config_map("m0"))
    frame = watch.frame()
    assert (frame["type"], frame["object"]["code"], frame["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert watch.frame() is None


def test_an_error_frame_in_protobuf_says_the_same() -> None:
    errors = []
    for media, lines in ((protobuf.WATCH_MEDIA, False), ("application/json;stream=watch", True)):
        informer = SharedInformer("configmaps", "v1", "ConfigMap")
        informer.begin_watch(media)
        errors.append(informer.feed_watch(error_frame(410, lines=lines)).error)
    (as_protobuf, as_json) = errors
    assert (as_json["code"], as_json["reason"]) == (410, "Expired")
    for name in ("kind", "status", "message", "reason", "code"):
        assert as_protobuf[name] == as_json[name], name


@pytest.mark.parametrize("fault", [Fault.cut(within=0.05), Fault.truncate(within=0.05)], ids=lambda fault: fault.kind)
def test_a_quiet_watch_is_hit_after_its_time(proxy: FaultProxy, client: Client, fault: Fault) -> None:
    proxy.next(fault, verb="watch")
    watch = Watch(client)
    if fault.kind == "truncate":
        assert watch.frame() is None
    else:
        with pytest.raises(TransportError):
            watch.frame()


def test_a_fault_that_needs_a_frame_does_not_harm_a_quiet_watch(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.duplicate(within=0.01), verb="watch")
    proxy.next(Fault.duplicate(within=0.01), verb="watch")
    first, second = Watch(client), Watch(client)
    eventually(lambda: proxy.left() == 0)
    client.create(config_map("m0"))
    client.create(config_map("m1"))
    for watch in (first, second):
        # A frame that arrives within the time is duplicated.
        seen = [watch.names(1)[0]]
        while seen[-1] != "m1":
            seen += watch.names(1)
        assert list(dict.fromkeys(seen)) == ["m0", "m1"]


def test_an_older_list_is_replayed(proxy: FaultProxy, client: Client) -> None:
    client.create(config_map("a"))
    assert list_maps(client) == ["a"]
    client.create(config_map("b"))
    client.delete("v1", "ConfigMap", "a", "default")
    proxy.next(Fault.older(), verb="list")
    assert list_maps(client) == ["a"]
    assert list_maps(client) == ["b"]


def test_an_older_streaming_list_is_replayed(proxy: FaultProxy, client: Client) -> None:
    parameters = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    client.create(config_map("a"))
    watch = Watch(client, **parameters)
    assert [watch.frame()["type"] for _ in range(2)] == ["ADDED", "BOOKMARK"]
    watch.stream.close()
    client.delete("v1", "ConfigMap", "a", "default")
    proxy.next(Fault.older(), verb="watch")
    again = Watch(client, **parameters)
    assert [again.frame()["type"] for _ in range(2)] == ["ADDED", "BOOKMARK"]
    assert again.frame() is None


def test_a_cut_network_refuses_until_it_is_restored(proxy: FaultProxy, client: Client) -> None:
    watch = Watch(client)
    proxy.cut()
    with pytest.raises(TransportError):
        watch.frame()
    with pytest.raises(TransportError, match="refused") as raised:
        list_maps(client)
    assert not raised.value.sent
    proxy.restore()
    assert list_maps(client) == []


def test_a_silent_cut_closes_nothing_and_data_in_flight_arrives(
    proxy: FaultProxy, client: Client, direct: Client
) -> None:
    watch = Watch(client)
    quiet = Watch(client, idle=0.2)
    proxy.cut(silent=True)
    direct.create(config_map("a"))
    with pytest.raises(TransportError, match="no data for"):
        quiet.frame()
    with pytest.raises(TransportError, match="in time"):
        list_maps(client, timeout=0.1)
    proxy.restore()
    assert watch.names(1) == ["a"]


def test_dropped_connections_are_reset_and_new_ones_accepted(proxy: FaultProxy, client: Client) -> None:
    watch = Watch(client)
    proxy.drop()
    with pytest.raises(TransportError):
        watch.frame()
    assert list_maps(client) == []


def test_faults_hit_only_the_requests_that_they_name(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.answer(503), verb="get", resource="configmaps", name="a")
    client.create(config_map("a"))
    client.create(config_map("b"))
    assert list_maps(client) == ["a", "b"]
    client.get("v1", "ConfigMap", "b", "default")
    assert proxy.left() == 1
    with pytest.raises(ServerError):
        client.get("v1", "ConfigMap", "a", "default")
    assert proxy.left() == 0


def test_a_kubeconfig_with_a_client_certificate_works_through_the_proxy(proxy: FaultProxy, sandbox: Sandbox) -> None:
    text = proxy.kubeconfig.read_text()
    assert "token" in text
    assert "certificate-authority-data" in text
    assert proxy.kubeconfig.stat().st_mode & 0o077 == 0


def test_an_unreachable_server_is_a_reset_not_a_hang(faults: Any) -> None:
    with Sandbox() as server:
        proxy = faults(server)
    client = Client.load(proxy.kubeconfig)
    with pytest.raises(TransportError):
        list_maps(client)
    client.close()


def test_a_stopped_proxy_leaves_no_thread_and_no_file(sandbox: Sandbox) -> None:
    before = set(threading.enumerate())
    proxy = FaultProxy(sandbox).start()
    (thread,) = (entry for entry in set(threading.enumerate()) - before if entry.name == "fault proxy")
    client = Client.load(proxy.kubeconfig)
    watch = Watch(client)
    proxy.stop()
    with pytest.raises(TransportError):
        watch.frame()
    proxy.stop()
    assert not thread.is_alive()
    assert not proxy.kubeconfig.exists()
    with pytest.raises(RuntimeError):
        proxy.cut()
    client.close()


def test_the_proxy_has_its_own_certificate(proxy: FaultProxy, sandbox: Sandbox) -> None:
    port = int(proxy.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as raw:
        context = ssl.create_default_context(cadata=sandbox.ca)
        with pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(raw, server_hostname="127.0.0.1")
