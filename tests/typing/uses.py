"""Typed uses of the API in a plugin and in its tests, for type checkers: no `Any`, and a misspelt field is an error."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, assert_type

import msgspec
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import Cache, Client, Condition, ModelStatus, Object, ObjectMeta, Request
from ctrlhost.clock import Clock
from ctrlhost.testing import FaultProxy, HostUnderTest, ManualClock
from ctrlhost.testing.pytest_plugin import StartHost, StartProxy
from ctrlhost.workqueue import WorkQueue


class Port(msgspec.Struct, frozen=True):
    name: str
    target: ctrlhost.IntOrString = 80


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    size: Annotated[int, msgspec.Meta(ge=0, le=5)] = 1
    ports: Annotated[list[Port], ctrlhost.ListMap("name")] = []
    memory: ctrlhost.Quantity = "1Gi"
    mode: Literal["fast", "safe"] | None


class Status(ModelStatus):
    readyReplicas: int = 0  # noqa: N815


@ctrlhost.resource(
    "cache.example.com/v1", short_names=["mc"], columns=[ctrlhost.Column("Size", ".spec.size", "integer")]
)
class Memcached(ctrlhost.Model[Annotated[Spec, ctrlhost.Rule("self.size > 0")], Status]):
    """A model, as authors write it."""


@ctrlhost.resource("cache.example.com/v1")
class Bare(ctrlhost.Model[Spec, None]):
    """A model without a status."""


class State(msgspec.Struct):
    count: int = 0


class Settings(msgspec.Struct, frozen=True):
    image: str = "memcached:1.6"


plugin = ctrlhost.Plugin(settings=Settings)


@plugin.controller(Memcached)
def reconcile(ctx: ctrlhost.Context[Memcached, Settings], mc: Memcached) -> None:
    assert_type(ctx.settings, Settings)
    assert_type(ctx.settings.image, str)
    assert_type(ctx.client, Client)
    assert_type(ctx.clock, Clock)
    assert_type(ctx.object, Object)
    assert_type(ctx.request, Request)
    assert_type((ctx.attempt, ctx.priority, ctx.leading, ctx.stopping), tuple[int, int, bool, bool])
    state: State = ctx.state
    assert_type(state, State)
    cache = ctx.cache(Memcached)
    assert_type(cache, Cache[Memcached])
    assert_type(cache.get("a"), Memcached | None)
    assert_type(cache.list()[0].spec.size, int)
    assert_type(cache.owned(), list[Memcached])
    assert_type(ctx.cache("v1/Secret").list(), list[Object])
    ctx.settings.imege  # type: ignore[attr-defined]  # noqa: B018
    ctx.sattings  # type: ignore[attr-defined]  # noqa: B018


def models(mc: Memcached, bare: Bare) -> None:
    assert_type(mc.metadata, ObjectMeta)
    assert_type(mc.metadata.labels, dict[str, str])
    assert_type(mc.metadata.creationTimestamp, datetime | None)
    assert_type(mc.spec.ports[0].target, int | str)
    assert_type(mc.spec.memory, int | str)
    assert_type(bare.status, None)
    if mc.status is not None:
        assert_type(mc.status.readyReplicas, int)
        assert_type(mc.status.conditions, list[Condition])
        assert_type(mc.status.condition("Ready"), Condition | None)
        mc.status.readyReplicas = 1  # type: ignore[misc]
    memcached = Memcached(metadata=ObjectMeta(name="a"), spec=Spec(size=3, mode=None))
    assert_type(memcached.spec, Spec)
    mc.spec.sice  # type: ignore[attr-defined]  # noqa: B018
    mc.metadata.nome  # type: ignore[attr-defined]  # noqa: B018
    mc.kind = "Other"  # type: ignore[misc]
    ObjectMeta(nome="a")  # type: ignore[call-arg]
    Spec(sice=3, mode=None)  # type: ignore[call-arg]


def queues() -> None:
    queue: WorkQueue[Request] = WorkQueue("requests")
    assert_type(queue.get(), Request)
    assert_type(queue.get_with_priority(), tuple[Request, int])
    assert_type(queue.get_batch(5), list[Request])
    queue.add("default/a")  # type: ignore[arg-type]
    texts = WorkQueue[str]()
    assert_type(texts.get_nowait(), str)
    anything = WorkQueue()
    anything.add("a")
    anything.add(("a", 1))


def test_fixtures(ctrlhost_host: StartHost, manual_clock: ManualClock, sandbox: Sandbox, faults: StartProxy) -> None:
    host = ctrlhost_host(plugin, clock=manual_clock, sandbox=sandbox)
    assert_type(host, HostUnderTest)
    assert_type(host.client, Client)
    host.settle(allow=("terminal",))
    host.settle(allow=["waiting"])
    host.settle(allow="terminal")  # type: ignore[arg-type]
    assert_type(manual_clock.now(), float)
    assert_type(faults(sandbox), FaultProxy)
    host.clint  # type: ignore[attr-defined]  # noqa: B018
