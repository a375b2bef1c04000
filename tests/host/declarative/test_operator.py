"""A whole operator of `ctrlhost.Plugin`: owned objects, status and a finalizer, with no more rights than these need."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost import Invalid
from ctrlhost.testing import ManualClock
from tests.host.declarative.test_rights import rights
from tests.support.memcached import Cache, Memcached, new_plugin
from tests.support.operators import Requests, deployment

CLEANUP = "cache.example.com/cleanup"
READ = {"list", "watch"}
#: What the host needs to run plugins, and what informers use where the server sends no streams.
_OF_THE_HOST = ("customresourcedefinitions", "events")


class Operator:
    """An operator with the selector of its Deployment, which is immutable, as the test wants it."""

    def __init__(self) -> None:
        self.app = "cache"
        self.errors: list[Exception] = []
        self.cleaned: list[str] = []
        self.plugin = new_plugin("memcached.yaml")
        controller = self.plugin.controller(Memcached, owns=["apps/v1/Deployment"])(self.reconcile)
        self.plugin.finalizer(CLEANUP, of=controller)(self.clean)

    def reconcile(self, ctx: ctrlhost.Context[Memcached, None], mc: Memcached) -> None:
        wanted = deployment(self.app, replicas=mc.spec.size)
        wanted["metadata"]["name"] = mc.metadata.name
        try:
            child = ctx.ensure(wanted)
        except Invalid as error:
            self.errors.append(error)
            ctx.status.condition("Available", False, "Refused", error.message)
            raise
        ctx.status.set(readyReplicas=child.get_path("status", "readyReplicas", default=0))
        ctx.status.condition("Available", True, "Applied")

    def clean(self, ctx: ctrlhost.Context[Memcached, None], mc: Memcached) -> None:
        self.cleaned.append(mc.metadata.name)


@pytest.mark.behaviour("authoring/AC17")
def test_the_rights_are_those_that_the_declaration_needs(ctrlhost_host: Any) -> None:
    operator = Operator()
    declared = rights(operator.plugin)
    assert declared == {
        "memcacheds": READ | {"patch"},
        "memcacheds/status": {"patch"},
        "memcacheds/finalizers": {"update"},
        "deployments": READ | {"get", "create", "patch"},
        "events": {"create", "patch"},
    }
    cache = Cache(ctrlhost_host(operator.plugin, least_privilege=True))
    cache.create()
    cache.resize(2)
    live = cache.client.get("apps/v1", "Deployment", "cache", "default")
    assert live["spec"]["replicas"] == 2
    assert cache.get()["metadata"]["finalizers"] == [CLEANUP]
    cache.delete()
    cache.host.run_until_idle()
    assert operator.cleaned == ["cache"]
    assert cache.find() is None
    assert cache.counts.errors == 0
    assert {record.code for record in cache.host.sandbox.audit if "serviceaccount" in record.user}.isdisjoint({403})
    unused = [right for right in cache.host.unused_rights() if right[1] not in _OF_THE_HOST and right[2] != "list"]
    assert unused == []


@pytest.mark.behaviour("authoring/AC16")
def test_a_refused_apply_is_reported_in_event_and_status(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    operator = Operator()
    cache = Cache(ctrlhost_host(operator.plugin, clock=manual_clock, least_privilege=True))
    cache.create()
    operator.app = "other"
    requests = Requests(cache.host)
    cache.run()
    assert [type(error) for error in operator.errors] == [Invalid]
    assert requests.new() == ["apply deployments cache", "patch memcacheds cache"]
    (condition,) = cache.status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Refused")
    assert "field is immutable" in condition["message"]
    (event,) = (entry for entry in cache.host.events() if entry["reason"] == "ApplyFailed")
    assert event["type"] == "Warning"
    assert event["note"].startswith("Deployment default/cache: spec.selector: ")
    assert "field is immutable" in event["note"]
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Memcached", "cache")
    assert cache.counts.errors == 1
