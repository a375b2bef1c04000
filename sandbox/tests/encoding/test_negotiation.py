"""The encoding of responses and of watches, as the client accepts it."""

from __future__ import annotations

import json

import pytest
from ctrlhost_sandbox.encoding.negotiation import JSON, YAML, accept

from tests.support.http_client import Api
from tests.support.objects import core
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("header", "body"),
    [("", b'{"a":1}\n'), (JSON, b'{"a":1}\n'), (f"{YAML},{JSON}", b"a: 1\n"), ("*/*", b'{"a":1}\n')],
)
def test_a_response_is_encoded_as_accepted(header: str, body: bytes) -> None:
    assert accept(header).encode(b'{"a":1}') == body


def test_a_watch_has_a_line_of_json_for_each_event_whatever_is_accepted(api: Api, ns: str) -> None:
    assert accept(YAML).frame("ADDED", b"{}") == b'{"type":"ADDED","object":{}}\n'
    api.post(core(ns, "configmaps"), {"metadata": {"name": "a"}}).expect(201)
    answer = api.get(core(ns, "configmaps") + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da", YAML)
    assert answer.headers["content-type"] == JSON
    assert [json.loads(line)["object"]["metadata"]["name"] for line in answer.body.splitlines()] == ["a"]


@pytest.mark.behaviour("findings/FS29")
@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadata"])
def test_what_is_not_stored_has_no_other_form(api: Api, ns: str, form: str) -> None:
    headers = {"Accept": f"{JSON};as={form};v=v1;g=meta.k8s.io"}
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    api.post(reviews, review, headers=headers).fails(406, "NotAcceptable")
    token = core(ns, "serviceaccounts", "default") + "/token"
    eventually(lambda: api.get(core(ns, "serviceaccounts", "default")).status == 200)
    api.post(token, {"spec": {}}, headers=headers).fails(406, "NotAcceptable")
    # If the client accepts more, it gets that.
    headers["Accept"] += f", {JSON}"
    assert api.post(reviews, review, headers=headers).expect(201)["status"]["allowed"] is True
    api.post(token, {"spec": {}}, headers=headers).expect(201)
