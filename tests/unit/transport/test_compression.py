"""Compressed answers, which are never asked for."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from contextlib import closing
from urllib.parse import urlsplit

import pytest
import yaml

from ctrlhost import AsyncClient
from ctrlhost.errors import TransportError
from ctrlhost.transport.interface import Transport
from tests.support.control_plane import KubeApiserver
from tests.support.informer_rig import Rig
from tests.support.stub_api_server import Json, StubApiServer, pod_list
from tests.support.waiting import eventually

PODS = 10_000
NAMESPACE = "gzip"
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


def pod(number: int) -> dict[str, object]:
    container = {"name": "main", "image": "registry.example/app:1"}
    metadata = {"name": f"pod-{number}", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


async def create(server: KubeApiserver) -> None:
    client, left = AsyncClient(server.client), iter(range(PODS))

    async def some() -> None:
        for number in left:
            await client.create(pod(number))

    await asyncio.gather(*(some() for _ in range(32)))


def compressed(server: KubeApiserver) -> str | None:
    """Return the encoding of a list if it may be compressed."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    context = ssl._create_unverified_context()
    with closing(http.client.HTTPSConnection(urlsplit(server.url).netloc, context=context)) as connection:
        token = config["users"][0]["user"]["token"]
        connection.request("GET", PATH, headers={"Accept-Encoding": "gzip", "Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answer.read()
        return answer.getheader("Content-Encoding")


def whole(transport: Transport, watch: bool) -> int:
    """Return how many objects of JSON come."""
    query = {"watch": True, "sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan"} if watch else {}
    stream = transport.stream(PATH, query=query, headers={"Accept": "application/json"})
    with closing(stream):
        content = b""
        while piece := stream.read():
            content += piece
            if watch and content.count(b"\n") >= PODS:
                return len([json.loads(line) for line in content.splitlines()[:PODS]])
        return len(json.loads(content)["items"])


@pytest.mark.slow
@pytest.mark.behaviour("scale/SC19")
def test_the_server_compresses_only_for_those_who_ask(own_kube_apiserver: KubeApiserver) -> None:
    server = own_kube_apiserver
    server.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    asyncio.run(create(server))
    assert compressed(server) == "gzip"
    response = server.client.transport.request("GET", PATH, timeout=60)
    assert "content-encoding" not in response.headers
    assert len(json.loads(response.body)["items"]) == PODS
    assert [whole(server.client.transport, watch) for watch in (False, True)] == [PODS, PODS]


@pytest.mark.behaviour("scale/SC19")
def test_a_compressed_answer_is_an_error_and_nothing_is_inflated(server: StubApiServer, rig: Rig) -> None:
    bomb = Json(pod_list(1), headers={"Content-Encoding": "gzip"})
    server.on("GET", "/api/v1/namespaces/default/pods", bomb)
    message = "the response is compressed, although that was not requested"
    with pytest.raises(TransportError, match=message):
        list(rig.client.list("v1", "Pod", "default"))
    rig.serve([bomb, Json(pod_list(3))], [bomb]).synced()
    eventually(lambda: len(rig.errors) >= 2)
    assert all(message in str(error) for error in rig.errors)
    assert all(request.headers["accept-encoding"] == "identity" for request in server.requests)
