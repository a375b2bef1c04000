"""Readers of the feed: what they cost, what they cannot do to others, and when an informer ends."""

from __future__ import annotations

import ctypes
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox
from prometheus_client import CollectorRegistry
from urllib3.exceptions import ProtocolError

from ctrlhost import Client, ConfigError, CtrlhostError
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.informers.declarations import scope_of
from ctrlhost.supervisor.cache_server import FeedLimits
from ctrlhost.supervisor.run_directory import LONGEST_PATH
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import WorkQueue
from tests.support.feeds import CONFIGS, PODS, FeedRig, SocketApi, StuckWatcher, short
from tests.support.informer_rig import synced
from tests.support.objects import config_map
from tests.support.stub_api_server import Frames, Json, StubApiServer, event, pod, pod_list, serve
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour
Feeds = Callable[..., FeedRig]


@pytest.fixture
def frames() -> Frames:
    """The watch of the host's informer."""
    return Frames()


@pytest.fixture
def pods(server: StubApiServer, frames: Frames) -> None:
    """One pod at version 10, and the watch from there."""
    serve(server, PODS, [Json(pod_list(10, pod("a", 1)))], [frames])


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def entries(of: str) -> int:
    """Return the number of files or tasks of this process."""
    return len(list(Path("/proc/self", of).iterdir()))


def slow_closed(feed: FeedRig) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(feed.server)
    (family,) = registry.collect()
    return {sample.labels["plugin"]: sample.value for sample in family.samples if sample.name.endswith("_total")}


@behaviour("supervision/FD13")
@pytest.mark.usefixtures("pods")
def test_a_watcher_that_does_not_read_is_closed_alone(client: Client, frames: Frames, feed_of: Feeds) -> None:
    limits = FeedLimits()
    assert (limits.waiting_events, limits.waiting_bytes) == (10_000, 1 << 20)
    feed = feed_of(client)
    reader, api = feed.open()
    reader.declare(scope_of("v1", "Pod"))
    api.listed(PODS)
    queue = WorkQueue()
    feed.factory.informers()[0].enqueue_to(queue)
    other = api.watch(PODS, resourceVersion="10", timeoutSeconds=300)
    stuck = StuckWatcher(feed.path(), f"{PODS}?watch=1&resourceVersion=10")
    # Both watches run.
    frames.send_event(event("MODIFIED", pod("a", 11)))
    assert short(other.next()) == "MODIFIED a 11"
    other.close()
    child = InformerFactory(feed.reading_client(), options=ReflectorOptions(watch_list=False))
    watcher = child.informer("v1", "Pod")
    synced(child)
    eventually(lambda: watcher.state == "watching")
    engine, before = feed.engine(), resident()
    for number in range(20_000):
        frames.send_event(event("MODIFIED", {**pod(f"p{number % 10}", 12 + number), "data": "x" * 4000}))
        if number % 1_000 == 0:
            # The server of this test must not hold all of them.
            eventually(lambda: engine.stats()["events"] >= number)  # noqa: B023 - called before the next round
    # Another watcher and the host's own handlers get everything.
    (part,) = watcher.parts
    eventually(lambda: part.engine.stats()["events"] == 20_000)
    assert part.reflector.status.lists == 1
    assert watcher.last_resource_version == "20011"
    eventually(lambda: len(queue) == 11)
    child.stop()
    eventually(lambda: slow_closed(feed) == {"bad": 1})
    # 80 MB were sent; the window has 16 of them.
    assert resident() - before < 50 << 20
    got = stuck.rest()
    assert 0 < len(got) < 10 << 20
    assert not got.endswith(b"0\r\n\r\n")
    reader.close()
    assert slow_closed(feed) == {"bad": 1}


#: Lists and watches again and again, and prints when each began and ended.
_PROBE = """
import json, sys, time, urllib3
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.support.feeds import PODS, SocketApi
api = SocketApi(Path(sys.argv[1]))
print("ready", flush=True)
until = time.monotonic() + 60
while time.monotonic() < until:
    began = time.monotonic()
    listed = api.get(PODS).json()
    events = api.watch(PODS, resourceVersion="0")
    first = events.next()
    ended = time.monotonic()
    events.close()
    print(json.dumps([began, ended, len(listed["items"]), first["type"]]), flush=True)
"""


@behaviour("supervision/FD14")
@pytest.mark.usefixtures("pods")
def test_the_feed_answers_while_the_interpreter_is_held(client: Client, feed_of: Feeds) -> None:
    feed = feed_of(client)
    feed.serving().listed(PODS)
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", _PROBE, str(feed.path()), root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as probe:
        assert probe.stdout is not None
        assert probe.stdout.readline() == "ready\n"
        assert json.loads(probe.stdout.readline())[3] == "ADDED"
        held = time.monotonic()
        # A call of C that keeps the interpreter.
        ctypes.PyDLL(None).usleep(5_000_000)
        released = time.monotonic()
        lines = []
        while not lines or lines[-1][0] < released:
            lines.append(json.loads(probe.stdout.readline()))
        probe.kill()
    during = [line for line in lines if held < line[0] and line[1] < released]
    assert [line[2:] for line in during] == [[1, "ADDED"]] * len(during)
    # An answer that waited for the interpreter would have ended after it was free again.
    assert min(ended - began for began, ended, *_ in during) < 0.1


@behaviour("supervision/FD18")
def test_readers_come_and_go_during_changes(sandbox: Sandbox, sandbox_client: Client, feed_of: Feeds) -> None:
    sandbox_client.create(config_map("a"))
    feed = feed_of(sandbox_client)
    feed.serving(kind="ConfigMap", plugin="first", namespaces=["default"]).listed(CONFIGS)
    done = threading.Event()
    last: list[int] = []

    def write() -> None:
        writer = Client.load(sandbox.kubeconfig)
        for number in range(300):
            obj = writer.patch("v1", "ConfigMap", "a", "default", {"data": {"n": str(number)}})
            last[:] = [int(obj["metadata"]["resourceVersion"])]
        done.set()
        writer.close()

    complete: list[int] = []

    def child(number: int) -> None:
        """List, watch some changes, and leave, until all were written; no change may be missing between."""
        rounds = 0
        while not done.is_set() or not rounds:
            reader, api = feed.open(f"p{number}")
            reader.declare(scope_of("v1", "ConfigMap", namespaces=["default"]))
            listed = api.listed(CONFIGS)
            (item,) = (entry for entry in listed["items"] if entry["metadata"]["name"] == "a")
            seen = int(item.get("data", {}).get("n", -1))
            query = {"resourceVersion": listed["metadata"]["resourceVersion"], "fieldSelector": "metadata.name=a"}
            events = api.watch(CONFIGS, **query)
            while seen < 299 and not (rounds % 2 and seen % 7 == 0):
                now = int(events.next()["object"]["data"]["n"])
                assert now == seen + 1
                seen = now
            events.close()
            reader.close()
            rounds += 1
        complete.append(number)

    before = entries("task")
    children = [Background(child, number) for number in range(10)]
    writing = Background(write)
    writing.result()
    for reader in children:
        reader.result()
    assert sorted(complete) == list(range(10))
    eventually(lambda: entries("task") <= before + 1)


@behaviour("supervision/FD18")
@pytest.mark.usefixtures("pods")
def test_readers_that_leave_keep_nothing(client: Client, feed_of: Feeds) -> None:
    feed = feed_of(client)
    feed.serving(plugin="first").listed(PODS)

    def come_and_go(times: int) -> tuple[int, int, int]:
        for _ in range(times):
            reader = feed.server.open("second", feed.path("second"))
            reader.declare(scope_of("v1", "Pod"))
            with SocketApi(feed.path("second")) as api:
                api.watch(PODS, resourceVersion="0").next()
            reader.close()
        return resident(), entries("fd"), entries("task")

    come_and_go(500)
    memory, files, threads = come_and_go(1)
    after = come_and_go(500)
    assert after[0] - memory < 4 << 20
    assert after[1] <= files + 5
    assert after[2] <= threads + 1


@behaviour("supervision/FD19")
@pytest.mark.usefixtures("pods")
def test_an_informer_without_readers_runs_on_for_a_while(
    server: StubApiServer, client: Client, frames: Frames, feed_of: Feeds, manual_clock: ManualClock
) -> None:
    assert FeedLimits().release == 30
    feed = feed_of(client, clock=manual_clock)
    first, api = feed.open("one")
    first.declare(scope_of("v1", "Pod"))
    second, _ = feed.open("two")
    second.declare(scope_of("v1", "Pod"))
    api.listed(PODS)
    assert frames.opened.wait(20)
    first.close()
    second.close()
    manual_clock.advance(29)
    frames.send_event(event("ADDED", pod("b", 11)))
    # A quick restart costs no list.
    again = feed.serving(plugin="one")
    eventually(lambda: len(again.listed(PODS)["items"]) == 2)
    assert (len(server.received(watch=False)), len(server.received(watch=True))) == (1, 1)
    feed.server._readers[0].close()
    manual_clock.advance(29.9)
    assert len(feed.factory.informers()) == 1
    assert not frames.closed.is_set()
    manual_clock.advance(0.2)
    eventually(lambda: not feed.factory.informers())
    assert frames.closed.wait(20)


@behaviour("supervision/FD19")
@pytest.mark.usefixtures("pods")
def test_readers_share_one_watch(server: StubApiServer, client: Client, feed_of: Feeds) -> None:
    feed = feed_of(client)
    for number in range(5):
        api = feed.serving(plugin=f"p{number}", reads="metadata" if number % 2 else None)
        api.listed(PODS)
    eventually(lambda: server.received(watch=True))
    # The whole objects were there first.
    assert (len(server.received(watch=False)), len(server.received(watch=True))) == (1, 1)


@pytest.mark.usefixtures("pods")
def test_a_socket_is_private(client: Client, feed_of: Feeds) -> None:
    feed = feed_of(client)
    feed.path().parent.mkdir(mode=0o755)
    feed.path().parent.chmod(0o755)
    reader, _ = feed.open()
    assert stat.S_IMODE(feed.path().parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(feed.path().stat().st_mode) == 0o600
    # One of a dead process does not disturb.
    feed.path().rename(feed.path().with_name("left"))
    again, api = feed.open()
    again.declare(scope_of("v1", "Pod"))
    api.listed(PODS)
    again.close()
    reader.close()
    assert not feed.path().exists()
    with pytest.raises(CtrlhostError, match="process of plugin bad has ended"):
        again.declare(scope_of("v1", "Pod"))


@pytest.mark.usefixtures("pods")
def test_a_process_of_another_user_is_refused(client: Client, feed_of: Feeds) -> None:
    feed = feed_of(client)
    feed.serving().listed(PODS)
    path = feed.directory / "other.sock"
    reader = feed.server._feed.open(path, os.geteuid() + 1)
    watcher = StuckWatcher(path, PODS)
    assert watcher.rest() == b""
    reader.close()


def test_impossible_paths_are_errors_of_the_configuration(client: Client, feed_of: Feeds) -> None:
    feed = feed_of(client)
    long = feed.directory / ("x" * LONGEST_PATH)
    with pytest.raises(ConfigError, match="longer than 100 bytes"):
        feed.server.open("bad", long)
    with pytest.raises(ConfigError, match="cannot listen on"):
        feed.server.open("bad", feed.directory / "none" / "deep" / "feed.sock")
    (feed.directory / "file").touch()
    with pytest.raises(ConfigError, match="file is not a directory"):
        feed.server.open("bad", feed.directory / "file" / "feed.sock")


@pytest.mark.usefixtures("pods")
def test_after_the_end_there_is_nothing(client: Client, feed_of: Feeds) -> None:
    feed = feed_of(client)
    reader, api = feed.open()
    reader.declare(scope_of("v1", "Pod"))
    api.listed(PODS)
    events: Any = api.watch(PODS, resourceVersion="10")
    feed.server.stop()
    with pytest.raises(ProtocolError):
        events.rest()
    assert not feed.path().exists()
    assert not feed.factory.informers()
    with pytest.raises((ConfigError, OSError), match="stopped"):
        feed.open("late")
    assert isinstance(api, SocketApi)
