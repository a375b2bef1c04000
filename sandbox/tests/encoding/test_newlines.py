"""The end of JSON answers: a newline, except for those that are for people or not written by the encoder of objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http_client import TABLE, Api
from tests.support.objects import config_map, core

METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
MAPS, NONE = core("default", "configmaps"), core("default", "configmaps", "none")
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

READS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "object": ("/api/v1/namespaces/default", None, {}),
    "list": ("/api/v1/namespaces", None, {}),
    "table": ("/api/v1/namespaces", TABLE, {}),
    "metadata": ("/api/v1/namespaces/default", METADATA, {}),
    "failure": (NONE, None, {}),
    "unknown kind": ("/api/v1/nonesuch", None, {}),
    "versions": ("/api", None, {}),
    "groups": ("/apis", None, {}),
    "discovery": ("/apis", DISCOVERY, {}),
    "group": ("/apis/apps", None, {}),
    "kinds": ("/apis/apps/v1", None, {}),
}
PLAIN: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "object for people": ("/api/v1/namespaces/default", None, {"pretty": "1"}),
    "paths": ("/", None, {}),
    "version": ("/version", None, {}),
    "keys": ("/openid/v1/jwks", None, {}),
    "issuer": ("/.well-known/openid-configuration", None, {}),
    "schema": ("/openapi/v3", None, {}),
    "no encoding": ("/api/v1/namespaces", METADATA, {}),
}


@pytest.mark.behaviour("findings3/NS16")
@pytest.mark.parametrize("case", READS)
def test_json_ends_with_a_newline(each_api: Api, case: str) -> None:
    path, accept, query = READS[case]
    assert each_api.get(path, accept, **query).body.endswith(b"}\n")


@pytest.mark.behaviour("findings3/NS16")
@pytest.mark.parametrize("case", PLAIN)
def test_json_that_ends_without_a_newline(each_api: Api, case: str) -> None:
    path, accept, query = PLAIN[case]
    assert each_api.get(path, accept, **query).body.endswith(b"}")


@pytest.mark.behaviour("findings3/NS16")
def test_answers_to_writes_end_with_a_newline(each_api: Api, namespace: str) -> None:
    maps, path = core(namespace, "configmaps"), core(namespace, "configmaps", "a")
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    answers = [
        each_api.post(maps, config_map()),
        each_api.post(maps, config_map()),
        each_api.patch(path, {"data": {"k": "w"}}),
        each_api.put(path, config_map()),
        each_api.delete(path),
        each_api.delete(maps),
        each_api.post(REVIEWS, review),
    ]
    assert [answer.status for answer in answers] == [201, 409, 200, 200, 200, 200, 201]
    assert all(answer.body.endswith(b"}\n") for answer in answers)
