"""The memory of stopped informers."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Collection
from typing import Any

import pytest

from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, Owner, ReflectorOptions
from ctrlhost.request import Request
from ctrlhost.workqueue import WorkQueue
from tests.support.stub_api_server import Frames, Json, StubApiServer, pod, pod_list, serve
from tests.support.waiting import eventually

PODS = "/api/v1/pods"
FUNCTIONS = ("transform", "index", "handler", "filter", "map", "predicate", "unknown owner")


class Controller:
    """Has an informer whose functions are its methods."""

    def __init__(self, client: Client, functions: Collection[str] = FUNCTIONS) -> None:
        self.factory = InformerFactory(client, options=ReflectorOptions(watch_list=False))
        self.queue = WorkQueue(fair_by=self.group)
        self.pods = self.factory.informer("v1", "Pod", transform=self.transform if "transform" in functions else None)
        if "index" in functions:
            self.pods.add_indexers({"by name": self.values})
        if "handler" in functions:
            self.handle = self.pods.add_handler(self.on_add)
        if "filter" in functions:
            self.filtered = self.pods.add_handler(filter=self.wanted)
        if "map" in functions:
            self.mapped = self.pods.enqueue_to(self.queue, self.requests)
        if "predicate" in functions:
            self.passed = self.pods.enqueue_to(self.queue, predicates=[self.passes])
        if "unknown owner" in functions:
            self.owned = self.pods.enqueue_to(self.queue, Owner("example.com/v1", "Unknown"), predicates=[self.passes])

    def run(self) -> None:
        with self.factory:
            assert self.factory.wait_for_sync(60)

    def group(self, key: Any) -> str:
        return str(key)

    def transform(self, obj: Any) -> Any:
        return obj

    def values(self, obj: Any) -> list[str]:
        return [obj.name]

    def on_add(self, obj: Any, _initial: bool) -> None: ...

    def wanted(self, obj: Any) -> bool:
        return True

    def requests(self, obj: Any) -> list[Request]:
        return [Request(obj.name)]

    def passes(self, old: Any, new: Any) -> bool:
        return True


@pytest.mark.behaviour("findings/FQ7")
def test_an_informer_with_functions_of_its_owner_is_freed(server: StubApiServer) -> None:
    serve(server, PODS, [Json(pod_list(20, *(pod(f"pod-{number}", number + 1) for number in range(20))))], [Frames()])
    controller = Controller(Client(server.url))
    controller.run()
    parts = [weakref.ref(referent) for referent in (controller, controller.pods, controller.factory, controller.queue)]
    del controller
    gc.collect()
    assert [part() for part in parts] == [None] * 4


@pytest.mark.behaviour("findings3/NC8")
@pytest.mark.parametrize("functions", [*((name,) for name in FUNCTIONS), FUNCTIONS], ids=" ".join)
def test_an_informer_that_was_never_started_is_freed(functions: tuple[str, ...]) -> None:
    # Nothing is asked of it.
    client = Client("http://127.0.0.1:1")
    threads = set(threading.enumerate())
    controller = Controller(client, functions)
    parts = [weakref.ref(referent) for referent in (controller, controller.pods, controller.factory, controller.queue)]
    del controller
    gc.collect()
    assert [part() for part in parts] == [None] * 4
    eventually(lambda: set(threading.enumerate()) <= threads, what="the threads of its functions end")


@pytest.mark.behaviour("findings/FQ8")
def test_stopped_informers_leave_no_memory_behind() -> None:
    code = textwrap.dedent("""
        import ctypes, gc, pathlib
        from ctrlhost.client import Client
        from tests.support.waiting import eventually
        from tests.support.stub_api_server import Frames, Json, StubApiServer, pod, pod_list, serve
        from tests.unit.informers.test_memory import Controller

        def resident():
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
            pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
            return int(pages) * 4096

        def run(server):
            serve(server, "/api/v1/pods", [LIST], [Frames()])
            controller = Controller(Client(server.url))
            controller.run()
            assert len(controller.pods.indexer) == 20_000

        LIST = Json(pod_list(20_000, *(pod(f"pod-{number}", number + 1) for number in range(20_000))))
        with StubApiServer() as server:
            for _ in range(2):
                run(server)
            before = resident()
            for _ in range(10):
                run(server)
            # Many objects are dropped on a thread of their own.
            eventually(lambda: resident() - before < 5_000_000)
    """)
    # One heap, so that memory that was freed but is kept for the next thread is not counted.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, timeout=100, check=False, capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
