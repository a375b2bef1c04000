"""Declarations as an author writes them, for type checkers: what they infer, and what they refuse."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import Any, assert_type

import msgspec

import ctrlhost
from ctrlhost import AsyncCache, AsyncClient, Cache, Caches, Client, Controller, For, Object, Request, Result, Watches


class Spec(msgspec.Struct, frozen=True):
    size: int = 1


class Status(ctrlhost.ModelStatus):
    readyReplicas: int = 0  # noqa: N815


@ctrlhost.resource("cache.example.com/v1alpha1")
class Memcached(ctrlhost.Model[Spec, Status], frozen=True):
    """A set of memcached servers."""


@ctrlhost.resource("v1/Pod")
class Pod(msgspec.Struct, frozen=True):
    metadata: ctrlhost.ObjectMeta


class Settings(msgspec.Struct, frozen=True):
    image: str = "memcached:1.6"


plain = ctrlhost.Plugin()
plugin = ctrlhost.Plugin(settings=Settings)
assert_type(plain, ctrlhost.Plugin[None])
assert_type(plugin, ctrlhost.Plugin[Settings])
assert_type(For(Memcached), For[Memcached])
assert_type(For("apps/v1", "Deployment"), For[Object])
assert_type(For("apps/v1/Deployment"), For[Object])


@plugin.index(Pod)
def by_node(pod: Pod) -> list[str]:
    return [pod.metadata.name]


@plain.index("v1/Service")
def by_port(service: Object) -> list[str]:
    return [service.name]


def of_pod(pod: Pod, caches: Caches) -> list[Request]:
    assert_type(caches[Memcached].get("a"), Memcached | None)
    assert_type(caches["v1/Secret"].list(), list[Object])
    return [Request(pod.metadata.name)]


@plugin.controller(Memcached, owns=["apps/v1/Deployment"], watches=[Pod, Watches(Pod, map=of_pod)])
def reconcile(ctx: ctrlhost.Context[Memcached, Settings], mc: Memcached) -> Result | None:
    assert_type(ctx.settings, Settings)
    assert_type(ctx.settings.image, str)
    assert_type(ctx.object, Object)
    assert_type(ctx.client, Client)
    assert_type(ctx.request, Request)
    assert_type(ctx.cache(Pod), Cache[Pod])
    assert_type(ctx.cache(Pod).get("a"), Pod | None)
    assert_type(ctx.cache(Pod).by_index(by_node, "a"), list[Pod])
    assert_type(ctx.cache("apps/v1/Deployment").owned(), list[Object])
    assert_type(mc.spec.size, int)
    assert_type(mc.status, Status | None)
    ctx.settings.imagee  # type: ignore[attr-defined]  # noqa: B018
    mc.spec.sice  # type: ignore[attr-defined]  # noqa: B018
    ctx.cache(Pod).by_index(by_port, "a")  # type: ignore[arg-type]
    ctx.cache(Pod).by_index(of_pod, "a")  # type: ignore[arg-type]
    return None


@plugin.controller("apps/v1/Deployment")
async def reconcile_async(ctx: ctrlhost.AsyncContext[Object, Settings], obj: Object) -> None:
    assert_type(ctx.settings, Settings)
    assert_type(ctx.client, AsyncClient)
    assert_type(ctx.cache(Pod), AsyncCache[Pod])
    assert_type(await ctx.cache(Pod).list(), list[Pod])


@plain.controller(For(Memcached, label_selector="a=b"), gone=True)
def with_gone(ctx: ctrlhost.Context[Memcached, None], mc: Memcached | None) -> None:
    assert_type(ctx.settings, None)


@plugin.finalizer("cache.example.com/cleanup", of=reconcile, when=lambda mc: mc.spec.size > 1)
def clean_up(ctx: ctrlhost.Context[Memcached, Settings], mc: Memcached) -> Result | None:
    assert_type(ctx.status, ctrlhost.StatusWriter)
    assert_type(ctx.status.set(readyReplicas=1), None)
    assert_type(ctx.status.condition("Ready", True, "Because"), None)
    assert_type(ctx.event("Ready", "it is ready", about=mc, once=True), bool)
    ctx.status.condition("Ready", 1.5, "Because")  # type: ignore[arg-type]
    return None


@plugin.finalizer("cache.example.com/async", of=reconcile_async)
async def clean_up_async(ctx: ctrlhost.AsyncContext[Object, Settings], obj: Object) -> None:
    assert_type(ctx.status, ctrlhost.StatusWriter)
    assert_type(ctx.event("Ready", "it is ready"), bool)


@plugin.finalizer("cache.example.com/wrong", of=reconcile)  # type: ignore[arg-type]
def clean_up_wrong(ctx: ctrlhost.Context[Memcached, Settings], pod: Pod) -> None: ...


plugin.finalizer("cache.example.com/when", of=reconcile, when=lambda mc: mc.spec.sice)  # type: ignore[attr-defined]


@plugin.controller(Pod, enabled=lambda settings: bool(settings.image))
def configured(ctx: ctrlhost.Context[Pod, Settings], pod: Pod) -> None: ...


@plugin.synced
def synced(host: ctrlhost.PluginContext[Settings]) -> None:
    host.handle(configured).enqueue(Request("a", "b"))


@plain.controller(Memcached, name="loose")
def loose(ctx: ctrlhost.Context, mc: Memcached) -> None:
    ctx.log.info("%s", mc.metadata.name)


assert_type(reconcile, Controller[Memcached, Result | None])
assert_type(reconcile_async, Controller[Object, Coroutine[object, object, Result | None]])


@plugin.controller(Memcached, name="wrong")  # type: ignore[arg-type]
def wrong_settings(ctx: ctrlhost.Context[Memcached, Spec], mc: Memcached) -> None: ...


@plugin.controller(Memcached, name="struct")  # type: ignore[arg-type]
def wrong_struct(ctx: ctrlhost.Context[Memcached, Settings], mc: Pod) -> None: ...


@plugin.controller(Memcached, name="result")  # type: ignore[arg-type]
def wrong_result(ctx: ctrlhost.Context[Memcached, Settings], mc: Memcached) -> int:
    return 30


@plugin.task(every=30.0)
def task(host: ctrlhost.PluginContext, stop: threading.Event) -> None: ...


@plugin.setup
def setup(host: ctrlhost.PluginContext[Settings]) -> dict[str, Any]:
    assert_type(host.settings, Settings)
    host.settings.imagee  # type: ignore[attr-defined]  # noqa: B018
    return {}


@plugin.controller(Memcached, name="status")
def write_status(ctx: ctrlhost.Context[Memcached, Settings], mc: Memcached) -> None:
    ctx.status.set(Status(readyReplicas=3))
    ctx.status.set(Status(reddyReplicas=3))  # type: ignore[call-arg]
    ctx.status.set(Status(readyReplicas="text"))  # type: ignore[arg-type]
    ctx.status.set("text")  # type: ignore[arg-type]


class Pool(msgspec.Struct):
    size: int = 0


stateful = ctrlhost.Plugin[Settings, Pool](settings=Settings)


only_state = ctrlhost.Plugin[None, Pool]()
annotated: ctrlhost.Plugin[Settings, Pool] = ctrlhost.Plugin(settings=Settings)
assert_type(only_state, ctrlhost.Plugin[None, Pool])
assert_type(annotated, ctrlhost.Plugin[Settings, Pool])


@only_state.setup
def set_up_only_state(host: ctrlhost.PluginContext[None, Pool]) -> Pool:
    assert_type(host.state, Pool)
    return Pool()


@stateful.setup
async def open_pool(host: ctrlhost.PluginContext[Settings, Pool]) -> AsyncIterator[Pool]:
    yield Pool()
    assert_type(host.state, Pool)


@stateful.setup
def set_up_more(host: ctrlhost.PluginContext[Settings, Pool]) -> Iterator[None]:
    host.state.sice  # type: ignore[attr-defined]  # noqa: B018
    yield


@stateful.setup
def set_up_nothing(host: ctrlhost.PluginContext) -> None: ...


@stateful.setup  # type: ignore[arg-type]
def wrong_state(host: ctrlhost.PluginContext[Settings, Pool]) -> int:
    return 3


@stateful.controller(Memcached)
def with_state(ctx: ctrlhost.Context[Memcached, Settings, Pool], mc: Memcached) -> None:
    assert_type(ctx.state, Pool)
    assert_type(ctx.state.size, int)
    ctx.state.sice  # type: ignore[attr-defined]  # noqa: B018


@stateful.finalizer("cache.example.com/cleanup", of=with_state)
def clean_up_with_state(ctx: ctrlhost.Context[Memcached, Settings, Pool], mc: Memcached) -> None:
    assert_type(ctx.state, Pool)


@stateful.controller(Memcached, name="async-state")
async def with_state_async(ctx: ctrlhost.AsyncContext[Memcached, Settings, Pool], mc: Memcached) -> None:
    assert_type(ctx.state, Pool)


@stateful.controller(Memcached, name="wrong-state")  # type: ignore[arg-type]
def with_wrong_state(ctx: ctrlhost.Context[Memcached, Settings, Spec], mc: Memcached) -> None: ...


@stateful.controller(Memcached, name="any-state")
def with_any_state(ctx: ctrlhost.Context[Memcached, Settings], mc: Memcached) -> None: ...


@stateful.task(every=30.0)
def task_with_state(host: ctrlhost.PluginContext[Settings, Pool], stop: threading.Event) -> None:
    assert_type(host.state.size, int)


@stateful.task()  # type: ignore[arg-type]
def wrong_task(host: ctrlhost.PluginContext[Spec], stop: threading.Event) -> None: ...


@stateful.report("/pool")
async def report(host: ctrlhost.PluginContext[Settings, Pool]) -> dict[str, int]:
    return {"size": host.state.size}


@stateful.elected  # type: ignore[arg-type]
def wrong_elected(host: ctrlhost.PluginContext[Settings, Spec]) -> None: ...


@stateful.health("pool")
def is_open(host: ctrlhost.PluginContext[Settings, Pool]) -> None:
    assert_type(host.settings, Settings)


@plugin.permission
def more(settings: Settings) -> list[ctrlhost.Permission]:
    return []


plugin.permission("", ["pods"], ["get"])


def hook_reconciler(ctx: ctrlhost.Context, request: Request) -> Result | None:
    assert_type(ctx.client, Client)
    return None


@plugin.validate(Memcached, "*", timeout="3s", reads=["v1/Secret", Pod])
def check(ctx: ctrlhost.Admission[Memcached, Settings], new: Memcached | None, old: Memcached | None) -> None:
    assert_type(ctx.settings, Settings)
    assert_type(ctx.cache(Pod).get("a"), Pod | None)
    assert_type(ctx.request.groups, tuple[str, ...])
    if new is not None and old is not None and new.spec.size < old.spec.size:
        raise ctrlhost.Denied("must not shrink", field="spec.size")


@plugin.validate(Memcached)
async def check_later(ctx: ctrlhost.Admission[Memcached], new: Memcached | None, old: Memcached | None) -> None: ...


@plugin.validate("v1/Pod", ["DELETE"])
def check_pod(
    ctx: ctrlhost.Admission[dict[str, Any]], new: dict[str, Any] | None, old: dict[str, Any] | None
) -> None: ...


@plugin.mutate(Memcached, reinvoke=False)
def fill(ctx: ctrlhost.Admission[Memcached, Settings], new: Memcached, old: Memcached | None) -> Memcached | None:
    return msgspec.structs.replace(new, spec=Spec(size=2))


@plugin.mutate("v1/Pod")
async def fill_pod(
    ctx: ctrlhost.Admission[dict[str, Any]], new: dict[str, Any], old: dict[str, Any] | None
) -> dict[str, Any]:
    return new


@plugin.convert(Memcached, source="v1alpha1", target="v1")
def upgrade(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj


@plugin.validate(Memcached)  # type: ignore[arg-type]
def check_two(ctx: ctrlhost.Admission[Memcached], new: Memcached) -> None: ...


@plugin.mutate(Memcached)  # type: ignore[arg-type]
def returns_text(ctx: ctrlhost.Admission[Memcached], new: Memcached, old: Memcached | None) -> str:
    return ""


plugin.validate(Memcached, reinvoke=True)  # type: ignore[call-overload]
