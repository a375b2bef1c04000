"""The filters of handlers, with changes in and out of them."""

from __future__ import annotations

from typing import Any

import ctrlhost_kopf as kopf
import pytest

from plugins.kopf.tests.examples import KIND, crd, example

pytestmark = pytest.mark.behaviour("kopf/KO4")
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
PRESENT, ABSENT = kopf.PRESENT, kopf.ABSENT

LABELS: dict[str, Any] = {
    "value": ({"a": "1"}, ["1"]),
    "present": ({"a": PRESENT}, ["1", "2"]),
    "absent": ({"a": ABSENT}, [None]),
    "function": ({"a": lambda value, name, **_: value == "2" and name == "ex"}, ["2"]),
    "two": ({"a": PRESENT, "b": ABSENT}, ["1", "2"]),
}


@pytest.mark.parametrize("kind", ["labels", "annotations"])
@pytest.mark.parametrize(("wanted", "values"), LABELS.values(), ids=LABELS)
def test_metadata(on: Any, start: Any, kind: str, wanted: Any, values: Any) -> None:
    created, seen = [], []
    on.create(**{kind: wanted})(lambda meta, **_: created.append(meta.get(kind, {}).get("a")))
    on.event(**{kind: wanted})(lambda meta, **_: seen.append(meta.get(kind, {}).get("a")))
    running = start()
    for value in (None, "1", "2"):
        running.create(**{kind: {} if value is None else {"a": value}})
        running.delete()
    assert created == values
    assert list(dict.fromkeys(seen)) == values


def test_the_values_of_a_field(on: Any, start: Any) -> None:
    calls: list[Any] = []

    def record(name: str) -> Any:
        return lambda old, new, diff, reason, **_: calls.append((name, old, new, len(diff)))

    on.create(id="value", field="spec.a", value="1")(record("value"))
    on.create(id="present", field="spec.a", value=PRESENT)(record("present"))
    on.create(id="none", field="spec.a")(record("none"))
    on.create(id="absent", field="spec.a", value=ABSENT)(record("absent"))
    on.create(id="function", field="spec.a", value=lambda value, **_: value == "2")(record("function"))
    running = start()
    running.create(a="1")
    # Before its creation, an object has no fields.
    everything = [("absent", None, "1", 1), ("none", None, "1", 1), ("present", None, "1", 1), ("value", None, "1", 1)]
    assert sorted(calls) == everything
    calls.clear()
    running.create("other")
    assert calls == [("absent", None, None, 0)]
    calls.clear()
    running.create("third", a="2")
    assert sorted(calls) == [
        ("absent", None, "2", 1),
        ("function", None, "2", 1),
        ("none", None, "2", 1),
        ("present", None, "2", 1),
    ]


def test_old_and_new_values(on: Any, start: Any) -> None:
    calls: list[Any] = []

    def record(name: str) -> Any:
        return lambda old, new, **_: calls.append((name, old, new))

    on.create()(lambda **_: None)
    on.update(id="any", field="spec.a")(record("any"))
    on.update(id="from-1-to-2", field="spec.a", old="1", new="2")(record("from-1-to-2"))
    on.update(id="to-3", field="spec.a", new="3")(record("to-3"))
    on.update(id="gone", field="spec.a", old=PRESENT, new=ABSENT)(record("gone"))
    on.field(id="field", field="spec.a", old=lambda value, **_: value == "2")(record("field"))
    running = start()
    running.create(a="1", b="1")
    running.patch(spec={"b": "2"})
    assert calls == []
    changes = {"2": [("any", "1", "2"), ("from-1-to-2", "1", "2")], "3": [], None: []}
    changes["3"] = [("any", "2", "3"), ("field", "2", "3"), ("to-3", "2", "3")]
    changes[None] = [("any", "3", None), ("gone", "3", None)]
    for value, wanted in changes.items():
        calls.clear()
        running.patch(spec={"a": value})
        assert sorted(calls) == wanted


def test_a_field_of_the_status_is_compared_if_a_handler_wants_it(on: Any, start: Any) -> None:
    calls: list[Any] = []
    on.field(field="status.a")(lambda old, new, diff, **_: calls.append((old, new, [tuple(item) for item in diff])))
    running = start()
    running.create()
    running.patch(status={"a": "1", "b": "1"})
    running.patch(status={"b": "2"})
    assert calls == [(None, "1", [("add", (), None, "1")])]


def test_a_field_handler_gets_the_changes_in_its_field(on: Any, start: Any) -> None:
    calls: list[Any] = []
    on.field(field="spec.a")(lambda old, new, diff, reason, **_: calls.append((str(reason), old, new, list(diff))))
    running = start()
    running.create(a={"x": 1}, b=1)
    running.patch(spec={"a": {"x": 2, "y": 3}, "b": 2})
    assert calls[0] == ("create", None, {"x": 1}, [("add", (), None, {"x": 1})])
    reason, old, new, diff = calls[1]
    assert (reason, old, new) == ("update", {"x": 1}, {"x": 2, "y": 3})
    assert sorted(diff) == [("add", ("y",), None, 3), ("change", ("x",), 1, 2)]


def test_when_gets_what_handlers_get(on: Any, start: Any) -> None:
    calls: list[Any] = []
    given: list[set[str]] = []

    def big(spec: Any, **kwargs: Any) -> bool:
        given.append(set(kwargs))
        return bool(spec.get("size", 0) > 10)

    on.create(when=big)(lambda name, **_: calls.append(name))
    on.create(id="other", when=kopf.all_([kopf.not_(big), kopf.any_([lambda **_: True]), kopf.none_([big])]))(
        lambda name, **_: calls.append(f"not {name}")
    )
    running = start()
    running.create("small", size=1)
    running.create("large", size=20)
    assert calls == ["not small", "large"]
    wanted = {"body", "meta", "status", "uid", "name", "namespace", "labels", "annotations", "patch", "memo", "logger"}
    assert all(wanted | {"resource", "old", "new", "diff", "reason"} <= names for names in given)


def test_the_finalizer_leaves_with_the_filter(on: Any, start: Any) -> None:
    deleted: list[str] = []
    on.delete(labels={"a": "1"})(lambda name, **_: deleted.append(name))
    running = start()
    running.create(labels={"a": "1"})
    assert running.finalizers() == [FINALIZER]
    running.label(a="2")
    assert running.finalizers() == []
    running.label(a="1")
    assert running.finalizers() == [FINALIZER]
    running.label(a=None)
    running.delete()
    assert running.find() is None
    assert deleted == []


def test_an_object_out_of_all_filters_is_left_alone(on: Any, start: Any) -> None:
    on.create(labels={"a": "1"})(lambda **_: None)
    on.update(labels={"a": PRESENT})(lambda **_: None)
    running = start()
    running.create()
    assert running.writes() == []
    assert running.get()["metadata"].get("annotations", {}) == {}


def test_a_change_out_of_the_filter_and_back_is_one_update(on: Any, start: Any) -> None:
    calls: list[Any] = []
    on.create(labels={"a": "1"})(lambda **_: calls.append("create"))
    on.update(labels={"a": "1"})(lambda diff, **_: calls.append(sorted(item.field for item in diff)))
    running = start()
    running.create(labels={"a": "1"}, x=1)
    running.label(a="2")
    running.patch(spec={"x": 2})
    assert calls == ["create"]
    running.label(a="1")
    assert calls == ["create", [("spec", "x")]]


def test_constant_labels_that_all_handlers_want_select_what_is_watched(on: Any, start: Any) -> None:
    calls: list[str] = []
    on.create(labels={"a": "1"})(lambda name, **_: calls.append(name))
    on.update(labels={"a": "1"})(lambda name, **_: calls.append(name))
    running = start()
    running.create("in", labels={"a": "1"})
    running.create("out", labels={"a": "2"})
    assert calls == ["in"]
    (controller,) = running.host.controllers.values()
    assert "a=1" in str(controller.sources[0].label_selector)
    on.delete(labels={"a": "1"})(lambda **_: None)
    running.host.stop()
    # Who must know when an object loses the label, watches all.
    again = start(sandbox=running.host.sandbox)
    (controller,) = again.host.controllers.values()
    assert controller.sources[0].label_selector is None


def test_params_and_ids(on: Any, start: Any) -> None:
    calls: list[Any] = []

    @on.create(id="second", param=2)
    @on.create(id="first", param=1)
    def record(param: int, **_: Any) -> int:
        calls.append(param)
        return param

    running = start()
    running.create()
    assert calls == [1, 2]
    assert {key: running.get()["status"][key] for key in ("first", "second")} == {"first": 1, "second": 2}


@pytest.mark.parametrize(
    "names",
    [
        (KIND[1],),
        ("kopfexample",),
        ("kex",),
        ("kopfexamples.kopf.dev",),
        ("kopfexamples.v1.kopf.dev",),
        ("kopf.dev", "kopfexamples"),
        ("kopf.dev/v1", "kopfexamples"),
        ("kopf.dev", "v1", "kopfexamples"),
        (lambda resource: resource.plural == "kopfexamples",),
    ],
    ids=lambda names: "function" if callable(names[0]) else str(names),
)
def test_a_kind_has_many_names(on: Any, start: Any, names: Any) -> None:
    calls: list[Any] = []
    on.create(*names)(lambda resource, **_: calls.append((repr(resource), resource.kind, resource.namespaced)))
    start().create()
    assert calls == [("kopfexamples.v1.kopf.dev", KIND[1], True)]


def test_contradictions_are_refused(on: Any) -> None:
    for options, error in (
        ({"value": "1"}, TypeError),
        ({"field": "spec.a", "value": "1", "old": "2"}, TypeError),
        ({"labels": {"a": None}}, ValueError),
        ({"annotations": {"a": None}}, ValueError),
    ):
        with pytest.raises(error):
            on.update(**options)(lambda **_: None)
    for names in ((), ("a", "b", "c", "d"), ("",)):
        with pytest.raises(TypeError):
            kopf.on.create(*names)


@pytest.mark.behaviour("kopf/KO3")
def test_a_filter_that_fails_is_called_again_after_a_change(
    on: Any, start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Any] = []

    def broken(spec: Any, **_: Any) -> bool:
        asked.append(spec.get("a"))
        return bool(spec["a"])

    calls: list[Any] = []
    on.create(when=broken)(lambda spec, **_: calls.append(spec["a"]))
    running = start()
    running.create()
    running.advance(1000)
    assert asked == [None]
    assert "KeyError: 'a'" in caplog.text
    running.patch(spec={"a": 1})
    assert calls == [1]


@pytest.mark.parametrize("group", ["", "kopf.dev"], ids=["ambiguous", "exact"])
def test_kinds_of_one_name_are_served_only_if_their_group_is_named(
    on: Any, start: Any, caplog: pytest.LogCaptureFixture, group: str
) -> None:
    other = crd()
    other["metadata"]["name"] = "kopfexamples.other.dev"
    other["spec"]["group"] = "other.dev"
    calls: list[str] = []
    on.create(*([group] if group else []), "kopfexamples")(lambda body, **_: calls.append(body["apiVersion"]))
    running = start(other)
    running.create()
    running.client.create({**example("o"), "apiVersion": "other.dev/v1"})
    running.host.run_until_idle()
    assert calls == ([KIND[0]] if group else [])
    lines = [line for line in caplog.messages if "`kopfexamples` is ambiguous, name a group" in line]
    assert len(lines) == (0 if group else 2)
