"""The encoding of responses and of watches, as the client accepts it."""

from __future__ import annotations

import json

import pytest

from ctrlhost.sandbox.encoding.negotiation import JSON, YAML, accept
from tests.support.http_client import Api
from tests.support.objects import core


@pytest.mark.parametrize(
    ("header", "body"), [("", b'{"a":1}'), (JSON, b'{"a":1}'), (f"{YAML},{JSON}", b"a: 1\n"), ("*/*", b'{"a":1}')]
)
def test_a_response_is_encoded_as_accepted(header: str, body: bytes) -> None:
    assert accept(header).encode(b'{"a":1}') == body


def test_a_watch_has_a_line_of_json_for_each_event_whatever_is_accepted(api: Api, ns: str) -> None:
    assert accept(YAML).frame("ADDED", b"{}") == b'{"type":"ADDED","object":{}}\n'
    api.post(core(ns, "configmaps"), {"metadata": {"name": "a"}}).expect(201)
    answer = api.get(core(ns, "configmaps") + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da", YAML)
    assert answer.headers["content-type"] == JSON
    assert [json.loads(line)["object"]["metadata"]["name"] for line in answer.body.splitlines()] == ["a"]
