"""What the kit remembers of the writes of a host."""

from __future__ import annotations

import json

import pytest

from ctrlhost.client import HttpRequest, Response
from ctrlhost.testing.record import RequestRecord

POD = "/api/v1/namespaces/default/pods/web"


@pytest.mark.parametrize("body", [b"ok", b"[]", b"{}", b'{"kind": "Table"}'])
def test_an_answer_that_is_no_object_is_no_known_state(body: bytes) -> None:
    record = RequestRecord()
    pod = {"kind": "Pod", "metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"}}
    record.wrote(HttpRequest("PUT", POD), Response(200, {}, json.dumps(pod).encode()))
    record.wrote(HttpRequest("POST", f"{POD}/proxy"), Response(200, {}, body))
    (known,) = record.last()
    assert known.answer == pod
    assert [write.resource for write in record.writes()] == ["pods", "pods/proxy"]
