"""The checks of the plugins' rights go on whatever becomes of one plugin, and make no informer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ctrlhost.client import Client
from ctrlhost.clock import SystemClock
from ctrlhost.entries import Entries
from ctrlhost.informers import InformerFactory
from ctrlhost.plugin.context import PluginContext
from ctrlhost.supervisor.review import Review
from ctrlhost.supervisor.rights import Rights
from tests.support.controllers import Bench
from tests.support.stub_api_server import Json, StubApiServer
from tests.support.waiting import eventually


class Runtime:
    """A plugin that lacked a right when it was checked last."""

    isolated, state, controllers, declared_rights = False, "starting", (), ()

    def __init__(self, context: PluginContext) -> None:
        self.name = context.name
        self.entries = Entries(context.name)
        self.may_run = threading.Event()
        self.may_run.set()
        self.missing_rights: tuple[str, ...] = ("a right",)
        self._context = context

    @property
    def context(self) -> PluginContext:
        return self._context


class Broken(Runtime):
    """A plugin that cannot be checked."""

    @property
    def context(self) -> PluginContext:
        raise RuntimeError("broken")


@pytest.fixture
def bench() -> Iterator[Bench]:
    with StubApiServer() as server:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        server.on("POST", path, Json({"status": {"allowed": True}}))
        server_bench = Bench()
        server_bench.client = Client(server.url)
        server_bench.factory = InformerFactory(server_bench.client)
        yield server_bench
        server_bench.close()
        server_bench.factory.stop()
        server_bench.client.close()


def checked(*plugins: Any) -> None:
    """Check the rights of plugins until none is missing in the last one."""
    rights = Rights(plugins)
    rights.start()
    try:
        eventually(lambda: plugins[-1].missing_rights == ())
    finally:
        rights.stop()
        rights._thread.join(10)


@pytest.mark.parametrize("released", [False, True], ids=["not yet used", "of a plugin that ended meanwhile"])
def test_informers_without_a_watch_are_neither_made_nor_woken(bench: Bench, caplog: Any, released: bool) -> None:
    context = bench.plugin()
    informer = context.informer("v1", "Secret")
    if released:
        informer.release()
    plugin: Any = Runtime(context)
    checked(plugin)
    Review([plugin], SystemClock()).check()
    assert bench.factory.informers() == []
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_an_unexpected_error_with_one_plugin_ends_no_other_check(bench: Bench, caplog: Any) -> None:
    checked(Broken(bench.plugin("broken")), Runtime(bench.plugin()))
    assert "the check of the rights of plugin broken failed; continuing" in caplog.text
