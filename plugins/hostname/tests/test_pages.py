"""The status pages as a client receives them."""

from __future__ import annotations

import json

import pytest
from ctrlhost_hostname.pages import PreparedPages, status_pages
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient


@pytest.fixture
def pages(clock):
    pages = PreparedPages(clock)
    pages.add("/managed-hostnames", lambda: b"{}\n")
    pages.add("/ignore-list", lambda: b'{"a":1}\n')
    return pages


@pytest.fixture(params=["alone", "mounted"])
def client(request, pages):
    application = status_pages(pages)
    if request.param == "alone":
        return TestClient(application)
    mounted = Starlette(routes=[Mount("/hostname", app=application)])
    return TestClient(mounted, base_url="http://testserver/hostname/")


def url(client, path):
    return str(client.base_url).rstrip("/") + path


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "HEAD"])
def test_health_answers_every_method(client, method):
    answer = client.request(method, url(client, "/health"))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    if method == "GET":
        assert answer.content == b"OK"


def test_version_has_upstreams_keys_in_their_order(client):
    answer = client.get(url(client, "/version"))
    assert answer.status_code == 200
    assert answer.text.endswith("}\n")
    document = json.loads(answer.text)
    assert " ".join(document) == "name server_name version commit build_tags go build_deps cosmos_sdk_version"
    assert document["name"] == "ctrlhost"
    assert document["cosmos_sdk_version"] == ""


@pytest.mark.behaviour("hostname/79")
def test_a_page_without_data_answers_204_and_has_no_time(client):
    answer = client.get(url(client, "/managed-hostnames"))
    assert answer.status_code == 204
    assert answer.content == b""
    assert answer.headers["cache-control"] == "no-cache, max-age=0"
    assert "last-modified" not in answer.headers


def test_a_prepared_page_has_its_time(client, pages, clock):
    clock.advance(3661)
    pages.get("/ignore-list").flag()
    pages.refresh()
    answer = client.get(url(client, "/ignore-list"))
    assert answer.status_code == 200
    assert answer.text == '{"a":1}\n'
    assert answer.headers["last-modified"] == "Thu, 01 Jan 2026 01:01:01 GMT"
    assert answer.headers["cache-control"] == "no-cache, max-age=0"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.behaviour("hostname/74")
@pytest.mark.parametrize("path", ["/managed-hostnames", "/ignore-list", "/version"])
@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE"])
def test_methods_other_than_get_are_rejected(client, method, path):
    answer = client.request(method, url(client, path))
    assert answer.status_code == 405
    assert answer.content == b""


def test_the_index_below_the_host_lists_pages_that_answer(pages):
    mounted = Starlette(routes=[Mount("/hostname", app=status_pages(pages, index=True))])
    client = TestClient(mounted)
    answer = client.get("/hostname/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    names = ("health", "version", "managed-hostnames", "ignore-list", "removal-brake")
    assert answer.text.splitlines() == [f"/hostname/{name}" for name in names]
    assert {client.get(path).status_code for path in answer.text.splitlines()[:2]} == {200}
    assert client.get("/hostname/nothing").status_code == 404


@pytest.mark.parametrize("path", ["/", "/nothing", "/health/", "/managed-hostnames/x"])
def test_other_paths_are_not_found(client, path):
    answer = client.get(url(client, path))
    assert answer.status_code == 404
    assert answer.content == b"404 page not found\n"
