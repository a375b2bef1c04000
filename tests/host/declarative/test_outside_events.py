"""Events from outside Kubernetes, which enqueue requests; and events of a controller's own writes, which do not."""

from __future__ import annotations

import queue
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

import ctrlhost
from ctrlhost import Object, Owns
from tests.support.declared import declared
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

QUEUE: queue.SimpleQueue[ctrlhost.Request] = queue.SimpleQueue()


def receive(stop: threading.Event) -> list[ctrlhost.Request]:
    """Stand for the client of a message queue: return what has come."""
    stop.wait(0.01)
    return [QUEUE.get() for _ in range(QUEUE.qsize())]


plugin = declared("outside")
runs: list[str] = []


@plugin.controller("v1/ConfigMap")
def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
    if obj.namespace == "default" and obj.name in ("a", "b"):
        runs.append(obj.name)


@plugin.task(needs_leader=True)
def read_messages(host: ctrlhost.PluginContext, stop: threading.Event) -> None:
    controller = host.handle(reconcile)
    while not stop.is_set():
        controller.enqueue_many(receive(stop))


@plugin.page("/changed")
def changed(host: ctrlhost.PluginContext) -> Starlette:
    controller = host.handle(reconcile)

    async def enqueue(request: HttpRequest) -> Response:
        controller.enqueue(ctrlhost.Request(**request.path_params))
        return Response(status_code=202)

    return Starlette(routes=[Route("/{namespace}/{name}", enqueue, methods=["POST"])])


@pytest.mark.behaviour("findings3/NA26")
def test_a_page_and_a_task_enqueue_requests_of_a_declared_controller(ctrlhost_host) -> None:
    runs.clear()
    host = ctrlhost_host(plugin, listen="127.0.0.1:0")
    host.client.create(config_map("a"))
    host.client.create(config_map("b"))
    host.run_until_idle()
    assert sorted(runs) == ["a", "b"]
    url = f"http://{host.host.address}/outside/changed/default/a"
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=30) as answer:
        assert answer.status == 202
    eventually(lambda: len(runs) == 3)
    QUEUE.put(ctrlhost.Request("b", "default"))
    eventually(lambda: len(runs) == 4)
    assert runs[2:] == ["a", "b"]


class Settings(msgspec.Struct, frozen=True):
    quiet: bool = False


@pytest.mark.behaviour("findings3/NA26")
@pytest.mark.parametrize(
    ("option", "quiet", "expected"),
    [
        (False, False, 4),
        (True, False, 1),
        (lambda settings: settings.quiet, False, 4),
        (lambda settings: settings.quiet, True, 1),
    ],
)
def test_own_writes_to_the_reconciled_kind_wake_a_controller_unless_it_suppresses_them(
    ctrlhost_host, option: bool | Callable[[Settings], bool], quiet: bool, expected: int
) -> None:
    plugin, seen = declared(settings=Settings), []

    @plugin.controller("v1/ConfigMap", suppress_echo=option)
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        if obj.name != "a":
            return
        seen.append(obj["data"]["count"])
        if len(seen) < 4:
            ctx.client.patch("v1", "ConfigMap", "a", "default", {"data": {"count": str(len(seen))}})

    host = ctrlhost_host(plugin, settings={"p": {"quiet": quiet}})
    host.client.create(config_map("a", count="0"))
    host.run_until_idle()
    assert seen == ["0", "1", "2", "3"][:expected]


@pytest.mark.behaviour("findings3/NA26")
@pytest.mark.parametrize("suppress", [None, True, False])
def test_own_writes_to_an_owned_kind_wake_a_controller_only_where_its_source_says_so(
    ctrlhost_host, suppress: bool | None
) -> None:
    plugin, seen = declared(), []

    @plugin.controller("v1/ConfigMap", owns=[Owns("v1/Secret", suppress_echo=suppress)])
    def reconcile(ctx: ctrlhost.Context, obj: Object) -> None:
        if obj.name == "a":
            seen.append(ctx.ensure(secret()).name)

    host = ctrlhost_host(plugin)
    host.client.create(config_map("a"))
    host.run_until_idle()
    assert len(seen) == (2 if suppress is False else 1)


def secret() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
