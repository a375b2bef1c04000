"""An informer in a child of its process: it has no thread there, and its locks may be held for ever."""

from __future__ import annotations

import os

import pytest

from ctrlhost.workqueue import WorkQueue
from tests.support.informer_rig import Rig
from tests.support.recording_handler import TWO


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.behaviour("findings/FQ17")
def test_a_child_cannot_use_an_informer_of_its_parent(rig: Rig) -> None:
    rig.serve(TWO).synced()
    pods = rig.pods
    handle = pods.add_handler()
    queued = pods.enqueue_to(WorkQueue())
    assert pods.has_synced
    calls = {
        name: (lambda name=name: getattr(pods, name))
        for name in ("has_synced", "state", "reason", "pending", "parts", "last_resource_version")
    }
    calls |= {
        "status": pods.status,
        "list": pods.lister.list,
        "get": lambda: pods.lister.get("pod1", "default"),
        "by_index": lambda: pods.lister.by_index("namespace", "default"),
        "add_indexers": lambda: pods.indexer.add_indexers({"x": "spec.x"}),
        "add_handler": pods.add_handler,
        "enqueue_to": lambda: pods.enqueue_to(WorkQueue()),
        "version_in": lambda: pods.version_in("default"),
        "check": pods.check,
        "wake": pods.wake,
        "start": pods.start,
        "stop": pods.stop,
        "handle.has_synced": lambda: handle.has_synced,
        "queued.has_synced": lambda: queued.has_synced,
        "handle.remove": handle.remove,
        "queued.remove": queued.remove,
    }
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        wrong = []
        for name, call in calls.items():
            try:
                call()
                wrong.append(name)
            except RuntimeError as error:
                if "made before fork" not in str(error):
                    wrong.append(f"{name}: {error}")
            except BaseException as error:  # noqa: BLE001 - the parent tells of it
                wrong.append(f"{name}: {error!r}")
        os.write(writing, "\n".join(wrong).encode() or b"as it should be")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10_000).decode() == "as it should be"
    assert handle.active
    # The parent's is as it was.
    assert pods.has_synced
    rig.holds(pod1=1, pod2=2)
