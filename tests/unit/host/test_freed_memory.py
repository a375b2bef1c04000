"""Memory that is returned to the system after a peak of the informers."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import threading
import time

# The modules of an empty host that serves probes and metrics.
import ctrlhost.host.host, prometheus_client, starlette.applications, uvicorn.server
from ctrlhost.client import Client
from ctrlhost.host.freed_memory import FreedMemory, keep_little
from ctrlhost.informers import InformerFactory
from ctrlhost.testing import ManualClock

PODS = 20_000
POD = b'{"metadata":{"name":"pod-%d","namespace":"a","uid":"%d","resourceVersion":"1"},"spec":{"x":"%s"}}'


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def fill(engine, pods):
    engine.begin_list()
    engine.feed_list(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[')
    for number in range(pods):
        engine.feed_list((b"," if number else b"") + POD % (number, number, b"x" * 5000))
    engine.feed_list(b"]}")
    engine.end_page()
    engine.replace("1")
    engine.process()


keep_little()
clock = ManualClock()
factory = InformerFactory(Client("http://127.0.0.1:1"), clock=clock)
engine = factory.informer("v1", "Pod").parts[0].engine
freed = FreedMemory(lambda: factory, clock)
for thread in (threading.Thread(target=fill, args=(engine, 10)), threading.Thread(target=freed.check)):
    thread.start()
    thread.join()
empty = resident()
thread = threading.Thread(target=fill, args=(engine, PODS))
thread.start()
thread.join()
clock.advance(60)
freed.check()
full = resident()
# Learning takes some of what is measured.
while engine.stats()["compressed_objects"] < PODS:
    time.sleep(0.01)
for number in range(PODS):
    frame = b'{"type":"DELETED","object":%s}\\n' % (POD % (number, number, b""))
    engine.feed_watch(frame)
    engine.process()
assert len(engine.indexer) == 0
for _ in range(10):
    clock.advance(60)
    freed.check()
print(empty, full, resident(), flush=True)
"""


@pytest.mark.behaviour("scale/SC105")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the allocator is not glibc's")
def test_ten_minutes_after_all_objects_were_deleted_the_process_is_as_small_as_an_empty_one() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    empty, full, after = map(int, done.stdout.split())
    assert full > 2 * empty
    assert after <= 1.2 * empty
