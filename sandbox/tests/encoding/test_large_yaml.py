"""Large YAML bodies are decoded beside the loop, so other requests are answered meanwhile."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from ctrlhost_sandbox import Sandbox
from ctrlhost_sandbox.encoding.negotiation import DecodedYaml

from tests.support.http_client import APPLY, Api
from tests.support.objects import core

YAML = "application/yaml"


def body(name: str) -> bytes:
    lines = [f"  k{number}: {'v' * 60}" for number in range(5000)]
    return "\n".join(["apiVersion: v1", "kind: ConfigMap", f"metadata: {{name: {name}}}", "data:", *lines]).encode()


@pytest.mark.behaviour("findings/FS12")
def test_other_requests_are_answered_during_a_large_yaml(
    server: Sandbox, api: Api, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()
    decode = DecodedYaml.of

    def held(data: bytes) -> DecodedYaml:
        begun.set()
        assert released.wait(30)
        return decode(data)

    monkeypatch.setattr(DecodedYaml, "of", held)
    path = core(ns, "configmaps")
    with ThreadPoolExecutor(1) as pool, Api(server.url, server.ca, server.token) as other:
        sent = pool.submit(other.post, path, body("a"), content_type=YAML)
        try:
            assert begun.wait(30)
            api.get(path).expect(200)
            api.get(f"{path}/a").fails(404)
        finally:
            released.set()
        assert len(sent.result().expect(201)["data"]) == 5000


@pytest.mark.behaviour("findings/FS12")
def test_a_large_yaml_is_treated_as_a_small_one(server: Sandbox, api: Api, ns: str) -> None:
    path = core(ns, "configmaps")
    applied = {"content_type": APPLY, "fieldManager": "m"}
    assert len(api.patch(f"{path}/b", body("b"), **applied).expect(201)["data"]) == 5000
    assert len(api.put(f"{path}/b", body("b"), content_type=YAML).expect(200)["data"]) == 5000
    api.post(path, body("c") + b"\n  - x", content_type=YAML).fails(400, "BadRequest")
    api.patch(f"{path}/c", body("c") + b"\n  - x", **applied).fails(400, "BadRequest")
    # The server decodes nothing for those that it does not know.
    with Api(server.url, server.ca, "x") as stranger:
        stranger.post(path, body("d"), content_type=YAML).fails(401)
