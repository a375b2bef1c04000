"""What begins before a host has imported everything: its connection, and its servers beside a slow plugin."""

from __future__ import annotations

import threading
import urllib.request
from typing import TYPE_CHECKING

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.host.host import Host
from ctrlhost.kubeconfig.connection import from_url
from ctrlhost.transport.native import NativeTransport
from tests.support.stub_api_server import Json, StubApiServer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: stub, cluster: {{server: "{url}"}}}}]
contexts: [{{name: stub, context: {{cluster: stub, user: stub}}}}]
current-context: stub
users: [{{name: stub, user: {{}}}}]
"""


def host_of(server: StubApiServer, folder: Path, plugin: object, listen: str = "") -> Host:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(url=server.url))
    assignments = [f"host.kubeconfig={kubeconfig}", f"host.listen={listen}"]
    return Host(plugins=[plugin], configuration=Configuration.gather(assignments=assignments))


def test_a_connection_that_was_opened_ahead_carries_the_first_request() -> None:
    with StubApiServer() as server:
        server.on("GET", "/version", Json({}))
        transport = NativeTransport(from_url(server.url, None, None, True))
        transport.connect_ahead()
        eventually(lambda: transport.connections()["idle"] == 1)
        transport.request("GET", "/version")
        assert server.connections == 1
        transport.close()


def test_a_connection_that_cannot_be_opened_ahead_is_the_first_requests_matter() -> None:
    with StubApiServer() as server:
        url = server.url
    transport = NativeTransport(from_url(url, None, None, True))
    transport.connect_ahead()
    eventually(lambda: transport.connections()["connecting"] == 0)
    assert transport.connections()["idle"] == 0


def test_the_handshake_takes_place_while_the_plugins_are_imported(tmp_path: Path) -> None:
    connected = threading.Event()

    class Waits:
        @ctrlhost.hookimpl
        def ctrlhost_settings(self) -> None:
            assert connected.wait(30)

        @ctrlhost.hookimpl
        def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None: ...

    with StubApiServer() as server:
        host = host_of(server, tmp_path, Waits())
        try:
            thread = threading.Thread(target=host.prepare)
            thread.start()
            eventually(lambda: server.connections == 1)
            connected.set()
            thread.join()
        finally:
            host.stop(0)


def test_probes_are_answered_while_a_plugin_computes_in_its_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctrlhost.host.host._SERVED_AFTER", 0.05)
    answered = threading.Event()

    class Computes:
        @ctrlhost.hookimpl
        def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
            while not answered.is_set():
                sum(range(1000))

    with StubApiServer() as server:
        host = host_of(server, tmp_path, Computes(), "127.0.0.1:0")
        try:
            thread = threading.Thread(target=host.start)
            thread.start()
            eventually(lambda: host.address is not None)
            with urllib.request.urlopen(f"http://{host.address}/livez", timeout=30) as answer:
                assert answer.status == 200
            assert host.plugins[0].state == "starting"
            answered.set()
            thread.join()
        finally:
            answered.set()
            host.stop(0)
