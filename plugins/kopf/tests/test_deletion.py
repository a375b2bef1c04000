"""Handlers of deletions and the finalizer."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import ctrlhost_kopf as kopf
import pytest

from tests.support.waiting import eventually

pytestmark = pytest.mark.behaviour("kopf/KO5")
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


@pytest.mark.parametrize("name", [FINALIZER, "example.com/mine"])
def test_a_deletion_waits_for_its_handlers(on: Any, start: Any, name: str) -> None:
    @on.startup()
    def configure(settings: Any, **_: Any) -> None:
        settings.persistence.finalizer = name

    calls: list[Any] = []
    errors = [kopf.TemporaryError("wait", delay=5), None]

    @on.delete()
    def slow(retry: int, meta: Any, reason: Any, **_: Any) -> None:
        calls.append((str(reason), retry, meta.deletion_timestamp is not None))
        if errors[retry] is not None:
            raise errors[retry]

    on.delete(id="second")(lambda **_: calls.append("second"))
    running = start()
    running.create()
    assert running.finalizers() == [name]
    running.delete()
    assert running.finalizers() == [name]
    running.advance(5)
    assert running.find() is None
    assert sorted(map(str, calls)) == sorted(map(str, [("delete", 0, True), "second", ("delete", 1, True)]))


def test_an_optional_handler_needs_no_finalizer(on: Any, start: Any) -> None:
    calls: list[str] = []
    on.delete(optional=True)(lambda **_: calls.append("deleted"))
    running = start()
    running.create()
    assert running.finalizers() == []
    running.delete()
    assert running.find() is None
    assert calls == []


def test_it_is_handled_once_while_a_daemon_holds_the_object(on: Any, start: Any) -> None:
    calls: list[str] = []
    end = threading.Event()

    @on.daemon()
    async def stay(**_: Any) -> None:
        await asyncio.to_thread(end.wait)

    on.delete()(lambda **_: calls.append("deleted"))
    running = start()
    running.create()
    running.delete()
    for _ in range(3):
        running.advance(1)
    assert running.finalizers() == [FINALIZER]
    assert calls == ["deleted"]
    end.set()
    eventually(lambda: running.advance(1) or running.find() is None, pause=0.01)
    assert calls == ["deleted"]


def test_a_handler_that_fails_for_good_lets_the_object_go(on: Any, start: Any) -> None:
    @on.delete()
    def fail(**_: Any) -> None:
        raise kopf.PermanentError("never")

    running = start()
    running.create()
    running.delete()
    assert running.find() is None


def test_finalizers_of_others_stay(on: Any, start: Any) -> None:
    calls: list[str] = []
    on.delete()(lambda **_: calls.append("deleted"))
    running = start()
    running.create()
    running.patch(metadata={"finalizers": ["example.com/other", FINALIZER]})
    running.delete()
    assert running.finalizers() == ["example.com/other"]
    assert calls == ["deleted"]
    running.patch(spec={"a": 1})
    running.patch(metadata={"finalizers": None})
    assert running.find() is None
    assert calls == ["deleted"]


def test_a_handler_that_is_gone_leaves_no_finalizer(on: Any, start: Any, registry: kopf.OperatorRegistry) -> None:
    on.delete()(lambda **_: None)
    on.create()(lambda **_: None)
    running = start()
    running.create()
    running.host.stop()
    registry.changing.pop(0)
    again = start(sandbox=running.host.sandbox)
    assert again.finalizers() == []


def test_a_deletion_supersedes_a_creation_that_is_not_finished(on: Any, start: Any) -> None:
    calls: list[str] = []

    @on.create()
    def wait(**_: Any) -> None:
        calls.append("create")
        raise kopf.TemporaryError("wait", delay=100)

    on.delete()(lambda **_: calls.append("delete"))
    running = start()
    running.create()
    running.delete()
    assert calls == ["create", "delete"]
    assert running.find() is None


def test_an_object_that_is_gone_at_once(on: Any, start: Any) -> None:
    calls: list[Any] = []

    @on.event()
    def seen(type: str | None, event: Any, **_: Any) -> None:  # noqa: A002 - kopf's word
        calls.append(type)

    @on.create()
    def remove(name: str, patch: Any, **_: Any) -> None:
        running.client.delete("kopf.dev/v1", "KopfExample", name, "default")
        patch.status["lost"] = True

    running = start()
    running.create()
    assert running.find() is None
    assert (calls[0], calls[-1]) == ("ADDED", "DELETED")
    assert running.operator.memories == {}


def test_nothing_hangs_when_the_namespace_is_deleted(on: Any, start: Any) -> None:
    calls: list[str] = []
    on.create()(lambda **_: None)
    on.delete()(lambda name, **_: calls.append(name))
    running = start({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    for name in ("one", "two"):
        running.create(name, namespace="other")
    running.client.delete("v1", "Namespace", "other")
    running.host.wait_for(lambda: running.client.find("v1", "Namespace", "other") is None)
    running.host.run_until_idle()
    assert sorted(calls) == ["one", "two"]
    assert running.operator.memories == {}
