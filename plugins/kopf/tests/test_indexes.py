"""Indexes, memos, subhandlers and lifecycles."""

from __future__ import annotations

import json
from typing import Any

import ctrlhost_kopf as kopf
import pytest
from ctrlhost_kopf.plugin import Operator

import ctrlhost
from plugins.kopf.tests.examples import CRD, example
from tests.support.waiting import eventually

pytestmark = pytest.mark.behaviour("kopf/KO7")


def test_an_index_has_what_its_handler_returns(on: Any, start: Any) -> None:
    @on.index(id="by_size")
    def sizes(spec: Any, name: str, **_: Any) -> Any:
        return {spec["size"]: name} if "size" in spec else None

    @on.index(id="names", labels={"a": kopf.PRESENT})
    async def names(name: str, labels: Any, **_: Any) -> Any:
        if labels["a"] == "bad":
            raise kopf.PermanentError(name)
        return name

    seen: list[Any] = []

    @on.event(field="spec.probe")
    def look(by_size: kopf.Index[Any, Any], names: kopf.Index[Any, Any], **_: Any) -> None:
        seen.append(({key: sorted(by_size[key]) for key in by_size}, sorted(names.get(None, []))))

    running = start()
    running.create("a", size=1)
    running.create("b", size=1, labels={"a": "1"})
    running.create("c", size=2, labels={"a": "2"})
    running.create("probe", probe=0)
    assert seen[-1] == ({1: ["a", "b"], 2: ["c"]}, ["b", "c"])
    running.patch("a", spec={"size": 2})
    running.label("b", a="bad")
    running.label("c", a=None)
    running.patch("probe", spec={"probe": 1})
    assert seen[-1] == ({1: ["b"], 2: ["a", "c"]}, [])
    running.delete("c")
    running.patch("b", spec={"size": None})
    running.patch("probe", spec={"probe": 2})
    # What returns nothing keeps what it had.
    assert seen[-1] == ({1: ["b"], 2: ["a"]}, [])
    assert len(running.operator.indexers["by_size"]) == 2
    assert running.operator.indexers["names"].get(None) is None


def test_indexes_are_full_before_a_handler_is_called(on: Any, start: Any, sandbox: Any, ctrlhost_host: Any) -> None:
    counts: list[int] = []
    on.index(id="all_pods")(lambda name, **_: {name: name})
    on.create()(lambda all_pods, **_: counts.append(len(all_pods)))
    objects = [example(f"ex{number}") for number in range(20)]
    start(*objects)
    assert counts == [20] * 20


def test_a_memo_lasts_as_long_as_the_object(on: Any, start: Any) -> None:
    seen: list[Any] = []

    @on.startup()
    def begin(memo: kopf.Memo, **_: Any) -> None:
        memo.shared = ["startup"]

    @on.create()
    def remember(memo: kopf.Memo, name: str, **_: Any) -> None:
        memo.own = name
        memo["shared"].append(name)

    @on.update()
    async def recall(memo: kopf.Memo, **_: Any) -> None:
        seen.append((memo.own, memo.shared))

    on.event()(lambda memo, **_: memo.setdefault("events", []).append(1))
    running = start()
    running.create("a")
    running.create("b")
    running.patch("a", spec={"x": 1})
    assert seen == [("a", ["startup", "a", "b"])]
    running.delete("a")
    running.create("a")
    running.patch("a", spec={"x": 1})
    assert seen[-1] == ("a", ["startup", "a", "b", "a"])
    assert "own" not in running.operator.memo
    with pytest.raises(AttributeError):
        _ = running.operator.memo.own
    del running.operator.memo.shared
    with pytest.raises(AttributeError):
        del running.operator.memo.shared


def test_subhandlers_are_called_and_retried(on: Any, start: Any) -> None:
    calls: list[Any] = []

    @on.create(id="parent")
    def parent(spec: Any, retry: int, **_: Any) -> str:
        calls.append(("parent", retry))
        for item in spec["items"]:

            @kopf.subhandler(id=item, backoff=5)
            async def child(item: str = item, retry: int = 0, **_: Any) -> Any:
                calls.append((item, retry))
                if item == "b" and retry == 0:
                    raise ValueError(item)
                return {"done": item}

        kopf.register(lambda **_: calls.append("registered"), id="last")
        return "ended"

    running = start()
    running.create(items=["a", "b"])
    assert [call for call in calls if call not in [("parent", retry) for retry in range(9)]] == [
        ("a", 0),
        ("b", 0),
        "registered",
    ]
    progress = {key: json.loads(value) for key, value in running.progress().items()}
    assert set(progress) == {"parent", "parent.a", "parent.b", "parent.last"}
    assert progress["parent"]["subrefs"] == ["parent/a", "parent/b", "parent/last"]
    assert progress["parent.a"]["success"]
    calls.clear()
    running.advance(5)
    assert ("b", 1) in calls
    assert ("a", 0) not in calls
    assert running.progress() == {}
    status = running.get()["status"]
    assert status["parent"] == "ended"
    assert status["parent/b"] == {"done": "b"}


def test_subhandlers_can_be_executed_in_place(on: Any, start: Any) -> None:
    calls: list[str] = []

    async def first(**_: Any) -> None:
        calls.append("first")

    def second(**_: Any) -> None:
        calls.append("second")

    @on.create(id="listed")
    async def listed(**_: Any) -> None:
        await kopf.execute(fns=[first], lifecycle=kopf.lifecycles.all_at_once)
        calls.append("listed")

    @on.create(id="mapped")
    async def mapped(**_: Any) -> None:
        await kopf.execute(fns={"named": second})
        with pytest.raises(TypeError):
            await kopf.execute(fns=[], handlers=[])
        calls.append("mapped")

    running = start()
    running.create()
    assert sorted(calls) == ["first", "listed", "mapped", "second"]
    assert running.progress() == {}


def test_only_changes_have_subhandlers(on: Any, start: Any) -> None:
    errors: list[Exception] = []

    @on.event()
    async def seen(**_: Any) -> None:
        for call in (lambda: kopf.register(lambda **_: None), kopf.execute):
            try:
                result = call()
                if result is not None:
                    await result
            except Exception as error:  # noqa: BLE001 - each is recorded
                errors.append(error)

    start().create()
    assert [type(error) for error in errors[:2]] == [TypeError, RuntimeError]
    with pytest.raises(TypeError):
        kopf.subhandler()


@pytest.mark.parametrize(
    ("lifecycle", "batches"),
    [
        ("asap", 3),
        ("one_by_one", 3),
        ("randomized", 3),
        ("all_at_once", 1),
        ("shuffled", 1),
    ],
)
def test_lifecycles(on: Any, start: Any, lifecycle: str, batches: int) -> None:
    versions: set[str] = set()
    for name in ("a", "b", "c"):

        @on.create(id=name)
        def record(meta: Any, **_: Any) -> None:
            versions.add(meta["resourceVersion"])

    running = start(lifecycle=getattr(kopf.lifecycles, lifecycle))
    running.create()
    assert len(versions) == batches
    assert running.progress() == {}


def test_asap_prefers_those_with_fewer_attempts(on: Any, start: Any) -> None:
    calls: list[str] = []

    @on.create()
    def failing(retry: int, **_: Any) -> None:
        calls.append("failing")
        if retry < 2:
            raise kopf.TemporaryError("again", delay=0)

    on.create(id="other")(lambda **_: calls.append("other"))
    running = start()
    running.create()
    assert calls == ["failing", "other", "failing", "failing"]
    assert kopf.get_default_lifecycle() is kopf.lifecycles.asap
    kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)
    assert kopf.get_default_lifecycle() is kopf.lifecycles.all_at_once
    kopf.set_default_lifecycle(None)
    assert kopf.get_default_lifecycle() is kopf.lifecycles.asap


def test_handlers_of_startup_get_the_indexes_that_are_filled_later(on: Any, start: Any) -> None:
    kept: list[Any] = []
    on.startup()(lambda by_a, **_: kept.append((by_a, len(by_a))))

    on.index(id="by_a")(lambda spec, name, **_: {spec["a"]: name})

    running = start()
    running.create(a=1)
    ((index, length),) = kept
    assert length == 0
    assert {key: list(values) for key, values in index.items()} == {1: ["ex"]}


@pytest.mark.behaviour("kopf/KO25")
def test_without_the_right_to_watch_crds_the_kinds_that_are_there_are_served(
    on: Any, registry: kopf.OperatorRegistry, ctrlhost_host: Any
) -> None:
    calls: list[Any] = []
    on.index(id="names")(lambda name, **_: name)
    on.create("nowhere", id="nowhere")(lambda **_: None)
    on.create(id="fn")(lambda name, names, **_: calls.append((name, list(names[None]))))
    host = ctrlhost_host(Operator(registry, "operator"), start=False)
    host.apply(CRD)
    forbidden = ctrlhost.Forbidden("no list of customresourcedefinitions")
    for verb in ("list", "watch"):
        host.faults.next(verb, forbidden, resource="customresourcedefinitions", times=1000)
    host.start()
    host.client.create(example("a"))
    eventually(lambda: calls == [("a", ["a"])])
