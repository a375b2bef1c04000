"""Schemas of kinds, read from a server."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost.client import Client
from ctrlhost.client.kind_schemas import KindSchemas, Schema
from ctrlhost.transport.interface import HttpRequest, Response
from ctrlhost.transport.steps import carry_out
from ctrlhost.transport.wrapped import WrappedTransport
from tests.support.objects import crd


class Counted(WrappedTransport):
    """A transport that counts its requests, and fails them on request."""

    count = 0
    answer: Response | None = None

    def steps(self, request: HttpRequest):  # type: ignore[no-untyped-def]
        self.count += 1
        return self.answer if self.answer is not None else (yield from super().steps(request))


@pytest.fixture
def transport() -> Iterator[Counted]:
    with Sandbox() as sandbox:
        client = Client.load(str(sandbox.kubeconfig))
        yield Counted(client.transport)
        client.close()


def read(schemas: KindSchemas, transport: Counted, api_version: str, kind: str) -> Schema | None:
    return carry_out(schemas.read(transport, api_version, kind))


def test_the_document_of_a_group_is_read_once(transport: Counted) -> None:
    schemas = KindSchemas()
    assert schemas.known("apps/v1", "Deployment") is None
    deployment = read(schemas, transport, "apps/v1", "Deployment")
    assert deployment is not None
    pod = deployment.fields["spec"].fields["template"].fields["spec"]
    containers = pod.fields["containers"]
    assert (containers.list_type, containers.keys) == ("map", ("name",))
    assert containers.items is not None
    assert containers.items.fields["args"].list_type == "atomic"
    limits = containers.items.fields["resources"].fields["limits"].values
    assert limits is not None
    assert limits.quantity
    assert deployment.fields["spec"].fields["selector"].atomic
    assert pod.omits_empty
    assert schemas.known("apps/v1", "Deployment") is deployment
    assert read(schemas, transport, "apps/v1", "StatefulSet") is not None
    assert read(schemas, transport, "apps/v1", "Nothing") is None
    assert transport.count == 1


@pytest.mark.parametrize(
    "answer",
    [Response(403, {}, b'{"kind": "Status"}'), Response(200, {}, b"<html>"), Response(200, {}, b"[]")],
    ids=["forbidden", "no JSON", "no document"],
)
def test_a_server_that_does_not_tell_is_asked_again_later(
    transport: Counted, answer: Response, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = KindSchemas()
    transport.answer = answer
    for _ in range(2):
        assert read(schemas, transport, "v1", "Service") is None
    assert transport.count == 1
    transport.answer = None
    later = time.monotonic() + 11
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert read(schemas, transport, "v1", "Service") is not None
    assert transport.count == 2


def test_schemas_of_custom_kinds_are_read_again(transport: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = KindSchemas()
    kind = ("cache.example.com/v1", "Plain")
    described = {
        "type": "object",
        "properties": {"tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}},
    }
    client = Client.over(transport.transport)
    client.create(crd("cache.example.com", "Plain", schema=described))
    plain = read(schemas, transport, *kind)
    assert plain is not None
    assert plain.fields["tags"].list_type == "set"
    assert not plain.omits_empty
    later = time.monotonic() + 601
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert schemas.known(*kind) is None
    assert read(schemas, transport, *kind) is not plain
