"""Memory that is returned to the system after informers have held much; `docs/how-to/memory.md` says when."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

COMMON = """
import gc
import time

from ctrlhost.cache import SharedInformer


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def settled(bound):
    # Memory is returned on threads of the core, which end soon after.
    deadline = time.monotonic() + 60
    while resident() > bound and time.monotonic() < deadline:
        time.sleep(0.05)
    return resident()
"""

DELETED = """
import threading

PODS = 20_000
POD = b'{"metadata":{"name":"pod-%d","namespace":"a","uid":"%d","resourceVersion":"1"},"spec":{"x":"%s"}}'


def fill(engine, pods):
    engine.begin_list()
    engine.feed_list(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[')
    for number in range(pods):
        engine.feed_list((b"," if number else b"") + POD % (number, number, b"x" * 5000))
    engine.feed_list(b"]}")
    engine.end_page()
    engine.replace("1")
    engine.process()


def on_thread(work, *arguments):
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    thread.join()


def delete(engine):
    for number in range(PODS):
        engine.feed_watch(b'{"type":"DELETED","object":%s}\\n' % (POD % (number, number, b"")))
        engine.process()


engine = SharedInformer("pods", "v1", "Pod")
on_thread(fill, engine, 10)
empty = resident()
on_thread(fill, engine, PODS)
full = resident()
on_thread(delete, engine)
assert len(engine.indexer) == 0
print(empty, full, settled(1.2 * empty), flush=True)
"""

ROUNDS = """
from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from tests.support.stub_api_server import Frames, Json, StubApiServer, pod, pod_list, serve

LIST = Json(pod_list(20_000, *(pod(f"pod-{number}", number + 1) for number in range(20_000))))


def follow(server):
    serve(server, "/api/v1/pods", [LIST], [Frames()])
    factory = InformerFactory(Client(server.url), options=ReflectorOptions(watch_list=False))
    pods = factory.informer("v1", "Pod")
    with factory:
        assert factory.wait_for_sync(60)
    assert len(pods.indexer) == 20_000


with StubApiServer() as server:
    for _ in range(2):
        follow(server)
    before = resident()
    for _ in range(8):
        follow(server)
    print(before, settled(before + 20_000_000), flush=True)
"""

glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the allocator is not glibc's")


def printed(program: str) -> list[int]:
    command = [sys.executable, "-c", COMMON + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


@glibc
@pytest.mark.behaviour("scale/SC105")
def test_after_all_objects_were_deleted_the_process_is_as_small_as_an_empty_one() -> None:
    empty, full, after = printed(DELETED)
    assert full > 2 * empty
    assert after <= 1.2 * empty


@glibc
@pytest.mark.behaviour("faster/FA21")
def test_informers_that_are_started_stopped_and_dropped_leave_nothing_behind() -> None:
    before, after = printed(ROUNDS)
    assert after <= before + 20_000_000
