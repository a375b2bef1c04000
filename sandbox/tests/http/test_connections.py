"""Connections: idle and slow ones, and an informer that resumes after a compaction."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest
from ctrlhost_sandbox import Options, Sandbox
from ctrlhost_sandbox.http import http

import ctrlhost
from ctrlhost.testing import FaultProxy, HurriedClock
from tests.support.http_client import Api
from tests.support.objects import config_map, core
from tests.support.waiting import eventually


@pytest.mark.behaviour("sandbox/RO-06")
@pytest.mark.behaviour("findings/FT1")
def test_two_thousand_idle_connections_are_limited_and_others_are_served() -> None:
    with Sandbox(insecure_http=True) as sandbox, Api(sandbox.url) as api, ExitStack() as stack:
        address = ("127.0.0.1", int(sandbox.url.rpartition(":")[2]))
        clients = []
        for number in range(2_000):
            clients.append(stack.enter_context(socket.create_connection(address)))
            if number % 100 == 0:
                api.get("/api/v1/namespaces").expect(200)
        # The oldest idle connections were closed, down to the limit.
        eventually(lambda: sum(not closed(client) for client in clients) <= http.MAX_CONNECTIONS)
        assert closed(clients[0])
        assert not closed(clients[-1])
        api.get("/api/v1/namespaces").expect(200)


def closed(client: socket.socket) -> bool:
    """Return whether the server closed the connection."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.behaviour("sandbox/RO-06")
def test_idle_and_slow_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(http, "HEADER_SECONDS", 0.0)
    with Sandbox(insecure_http=True) as sandbox, Api(sandbox.url) as api:
        address = ("127.0.0.1", int(sandbox.url.rpartition(":")[2]))
        slow = socket.create_connection(address)
        slow.sendall(b"GET / HT")
        slow.settimeout(10)
        assert slow.recv(1) == b""
        idle = [socket.create_connection(address) for _ in range(60)]
        api.get("/api/v1/namespaces").expect(200)
        idle[0].settimeout(10)
        try:
            closed = idle[0].recv(1) == b""
        except ConnectionResetError:
            closed = True
        assert closed
        for connection in (slow, *idle):
            connection.close()


@pytest.mark.behaviour("sandbox/NS-07")
def test_a_namespace_is_finalized_by_a_client() -> None:
    with Sandbox(controllers=()) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        path = "/api/v1/namespaces/n"
        api.post("/api/v1/namespaces", {"metadata": {"name": "n"}}).expect(201)
        going = api.delete(path).expect(200)
        api.get(path).expect(200)
        api.put(path + "/finalize", {**going, "spec": {"finalizers": []}}).expect(200)
        api.get(path).fails(404)


@pytest.mark.behaviour("sandbox/EE-11")
def test_an_informer_lists_again_after_a_compaction() -> None:
    with (
        Sandbox(options=Options(admin=True), controllers=()) as sandbox,
        Api(sandbox.url, sandbox.ca, sandbox.token) as api,
        FaultProxy(sandbox.kubeconfig) as proxy,
    ):
        client = ctrlhost.Client.load(kubeconfig=str(proxy.kubeconfig))
        path = core("default", "configmaps")
        api.post(path, config_map("kept")).expect(201)
        api.post(path, config_map("gone")).expect(201)
        factory = ctrlhost.InformerFactory(client, clock=HurriedClock())
        informer = factory.informer("v1", "ConfigMap")
        factory.start()
        try:
            assert factory.wait_for_sync(20)
            known = informer.last_resource_version
            proxy.cut()
            api.delete(f"{path}/gone").expect(200)
            api.post(path, config_map("new")).expect(201)
            api.post("/sandbox/v1/compact", {}).expect(200)
            (event,) = api.watch(path, resourceVersion=known).rest()
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
            assert informer.status().relists == 0
            proxy.restore()
            eventually(lambda: sorted(item.name for item in informer.lister.list("default")) == ["kept", "new"])
            # It listed again, once, because of that error. The list is counted after its objects are there.
            eventually(lambda: informer.status().relists == 1)
            assert informer.status().last_error == event["object"]["message"]
            listed = {obj["metadata"]["name"]: obj for obj in api.get(path).json()["items"]}
            assert {obj.name: obj.resource_version for obj in informer.lister.list("default")} == {
                name: obj["metadata"]["resourceVersion"] for name, obj in listed.items()
            }
            # The new watch works.
            api.delete(f"{path}/kept").expect(200)
            eventually(lambda: [item.name for item in informer.lister.list("default")] == ["new"])
            assert informer.status().relists == 1
        finally:
            factory.stop()
            client.close()
