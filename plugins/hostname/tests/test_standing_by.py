"""The status pages of replicas with leader election."""

from __future__ import annotations

import json
import socket

import pytest
import urllib3
from ctrlhost_hostname import plugin

SHOP = "shop.example.com"
LEASE = ("coordination.k8s.io/v1", "Lease")


@pytest.fixture
def replica(cluster, ctrlhost_host):
    """Start a replica and return its host, and a function that gets one of its pages."""

    def start():
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        settings = {"hostname": {"rest-address": "127.0.0.1", "rest-port": port}}
        host = ctrlhost_host(plugin, clock=cluster.clock, sandbox=cluster.server, settings=settings, leader_elect=True)

        def get(path):
            return urllib3.request("GET", f"http://127.0.0.1:{port}{path}", timeout=10.0, retries=False)

        return host, get

    return start


def advancing(cluster, condition):
    def step():
        cluster.clock.advance(1)
        return condition()

    return step


@pytest.mark.behaviour("findings/FP3")
@pytest.mark.parametrize("path", ["/managed-hostnames", "/ignore-list"])
def test_a_standby_names_the_leader_instead_of_its_own_data(cluster, objects, replica, path):
    cluster.lease(objects.first)
    cluster.declare(SHOP, objects.first)
    cluster.declare("waiting.example.com", objects.second)
    leader, ask_leader = replica()
    leader.wait_for(advancing(cluster, lambda: ask_leader(path).status == 200))
    standby, ask_standby = replica()
    identity = leader.host.leadership.identity

    def names_the_leader():
        answer = ask_standby(path)
        assert answer.status == 503
        return identity in answer.data.decode()

    standby.wait_for(advancing(cluster, names_the_leader))
    answer = ask_standby(path)
    assert answer.data.decode() == f"standing by; the leader is {identity}\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache, max-age=0"
    assert "last-modified" not in answer.headers
    assert ask_standby("/health").status == 200
    assert ask_standby("/version").status == 200
    assert leader.stop()
    standby.wait_for(advancing(cluster, lambda: ask_standby(path).status == 200))
    assert SHOP in ask_standby("/managed-hostnames").data.decode()


@pytest.mark.behaviour("findings/FP3")
def test_a_leader_that_is_elected_again_shows_nothing_of_its_first_term(cluster, objects, replica):
    for name in (SHOP, "blog.example.com"):
        cluster.declare(name, objects.first)
    cluster.lease(objects.first)
    host, ask = replica()
    path = "/managed-hostnames"
    host.wait_for(advancing(cluster, lambda: SHOP in ask(path).data.decode()))
    cluster.client.patch(*LEASE, "ctrlhost", "default", {"spec": {"holderIdentity": "another"}})
    host.wait_for(lambda: ask(path).status == 503)
    assert ask(path).data == b"standing by; the leader is another\n"
    # What the other leader does.
    cluster.release(SHOP)
    cluster.client.delete("networking.k8s.io/v1", "Ingress", SHOP, objects.first.namespace)

    def list_is_served():
        answer = ask(path)
        assert answer.status in (200, 204, 503)
        assert answer.status != 200 or list(json.loads(answer.data)) == ["blog.example.com"]
        return answer.status == 200

    host.wait_for(advancing(cluster, list_is_served))
