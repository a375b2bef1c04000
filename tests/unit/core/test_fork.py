"""Children of a process that uses the core: their parent's threads do not exist there, but its locks do."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


@pytest.mark.behaviour("findings/FQ17")
def test_a_child_cannot_use_what_its_parent_made() -> None:
    code = textwrap.dedent("""
        import gc, os, sys, threading
        from functools import partial
        from ctrlhost import _core
        from ctrlhost.cache import DeltaFIFO, Indexer, Predicate, SharedInformer
        from ctrlhost.testing import ManualClock
        from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, MaxOfRateLimiter, WorkQueue
        from tests.support.shared_informers import pod, relist, watch
        from tests.unit.streams import open_stream

        class Key(tuple):
            pass

        work_queue, indexer, clock = WorkQueue("parent"), Indexer(), ManualClock()
        http = _core.HttpClient(https=False, host="localhost", port=1, authority="localhost")
        stream = open_stream(b"x", rest=threading.Event())
        limiter = MaxOfRateLimiter(ItemExponentialFailureRateLimiter(0.001, 1.0))
        fifo = DeltaFIFO(indexer)
        informer = SharedInformer("pods", "v1", "Pod", clock=clock)
        informer.enqueue_to(work_queue)
        listener = informer.add_listener()
        watched, item = pod("a"), Key(("a", 1))
        calls = {
            name + "." + method: partial(getattr(owner, method), *args)
            for name, owner, methods in [
                ("queue", work_queue, {
                    "add": "x", "add_many": [["x"]], "add_after": ["x", 1], "add_rate_limited": "x", "get": [0],
                    "get_with_priority": [0], "get_nowait": [], "get_batch": [1, 0], "get_batch_with_priority": [1, 0],
                    "done": "x", "done_many": [["x"]], "forget": "x", "num_requeues": "x", "__len__": [],
                    "snapshot": [], "shut_down": [], "shut_down_with_drain": [],
                }),
                ("limiter", limiter, {"when": "x", "forget": "x", "num_requeues": "x"}),
                ("clock", clock, {"now": [], "time": [], "advance": [1], "waiters": []}),
                ("indexer", indexer, {
                    "add": [watched], "update": [watched], "delete": [watched], "delete_by_key": "x", "get": [watched],
                    "get_by_key": "x", "list": [], "list_keys": [], "replace": [[watched]],
                    "transaction": [[("add", watched)]], "index": ["namespace", watched], "by_index": "xy",
                    "index_keys": "xy", "list_index_func_values": "x", "add_indexers": [{"x": "spec.x"}],
                    "bookmark": "1", "__len__": [], "__contains__": "x",
                }),
                ("FIFO", fifo, {
                    "add": [watched], "update": [watched], "delete": [watched], "replace": [[watched], "1"],
                    "resync": [], "pop": [print, 0], "has_synced": [], "close": [], "list_keys": [], "__len__": [],
                }),
                ("informer", informer, {
                    "begin_list": [], "abort_list": [], "feed_list": [b"{}"], "end_page": [], "replace": "1",
                    "feed_watch": [b"{}"], "end_watch": [], "process": [], "enqueue_to": [WorkQueue("other")],
                    "add_listener": [], "remove_handler": [1], "resync": [], "stop": [], "stats": [],
                }),
                ("listener", listener, {"next": [0], "done": [], "close": []}),
                ("client", http, {
                    "call": ["GET", "/", [], None, 1.0, ""], "stream": ["/", [], 1.0, ""], "set_tls": [_core.Tls()],
                    "begin": [_core.Answers(), print, "GET", "/", [], None, 1.0, ""], "counts": [],
                }),
                ("stream", stream, {"read": [1], "close": []}),
            ]
            for method, args in methods.items()
        }
        for name, owner, attributes in [
            ("queue", work_queue, ["shutting_down"]),
            ("indexer", indexer, ["indexers", "resource_version", "memory"]),
            ("FIFO", fifo, ["closed"]),
            ("informer", informer, [
                "handler_count", "resync_check_period", "started", "stopped", "resource", "has_synced",
                "last_resource_version",
            ]),
            ("listener", listener, ["closed", "has_synced", "pending", "merged"]),
            ("stream", stream, ["held_back"]),
        ]:
            calls |= {f"{name}.{attribute}": partial(getattr, owner, attribute) for attribute in attributes}
        calls |= {
            "made with a queue": lambda: SharedInformer("pods", "v1", "Pod").enqueue_to(work_queue),
            "made with a limiter": lambda: WorkQueue(rate_limiter=limiter),
            "made with a clock": lambda: WorkQueue(clock=clock),
            "made with an indexer": lambda: DeltaFIFO(indexer),
        }

        def child():
            for name, call in calls.items():
                try:
                    call()
                except RuntimeError as error:
                    assert "made before fork" in str(error), (name, error)
                else:
                    raise AssertionError(name)
            gc.collect()
            own = WorkQueue("child")
            own.add("y")
            assert own.get() == "y"

        ending = threading.Event()

        def use():
            while not ending.is_set():
                work_queue.add(item)
                work_queue.done_many(work_queue.get_batch(10))
                indexer.add(watched)
                fifo.add(watched)
                fifo.pop(lambda *_: indexer.list(), 0)
                watch(informer, "MODIFIED", watched)
                listener.next(0)
                limiter.when("x")

        relist(informer, watched)
        users = [threading.Thread(target=use) for _ in range(1)]
        waiting = threading.Thread(target=lambda: WorkQueue("blocked", clock=clock).get(1), daemon=True)
        for thread in [*users, waiting]:
            thread.start()
        codes = set()
        for _ in range(200):
            if (forked := os.fork()) == 0:
                try:
                    child()
                except BaseException as error:
                    os.write(2, f"{error!r}\\n".encode())
                    os._exit(1)
                os._exit(0)
            codes.add(os.waitpid(forked, 0)[1])
        ending.set()
        for user in users:
            user.join()
        assert codes == {0}, codes
    """)
    command = [sys.executable, "-W", "ignore", "-c", code]
    ended = subprocess.run(command, timeout=100, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.behaviour("findings/FQ17")
def test_a_child_leaves_the_feed_of_its_parent_alone() -> None:
    code = textwrap.dedent("""
        import gc, os, pathlib, tempfile
        from ctrlhost import _core

        limits = {"window_events": 1, "window_bytes": 1, "waiting_events": 1, "waiting_bytes": 1}
        path = pathlib.Path(tempfile.mkdtemp(), "feed.sock")
        feed = _core.Feed(**limits, patience=1, bookmark=1)
        reader = feed.open(path, os.geteuid())
        kind = reader.declare("v1", "Pod")
        child = os.fork()
        if child == 0:
            calls = [
                lambda: feed.open("x", 0), feed.stop, lambda: reader.declare("v1", "Pod"), lambda: reader.slow_closed,
                reader.close, lambda: kind.set_resource("pods", True),
            ]
            for call in calls:
                try:
                    call()
                except RuntimeError as error:
                    assert "made before fork" in str(error)
                else:
                    os._exit(1)
            # Its end does not wait for the parent's thread, and does not remove the parent's socket.
            del call, calls, kind, reader, feed
            gc.collect()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert path.is_socket()
        reader.close()
        assert not path.exists()
        print("ok")
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr
