"""Text and copies of cached objects and their views, and the owners of objects."""

from __future__ import annotations

import copy
import json
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost import Object
from ctrlhost.cache import ListView, MapView
from tests.unit.core.test_object import POD, partial_pod

behaviour = pytest.mark.behaviour
UID = "0a1b2c3d-1111-2222-3333-444455556666"
WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "resourceVersion": "17", "uid": UID},
    "spec": {"replicas": 1},
}


def large(value: Any) -> Object:
    return Object({**WEB, "spec": value, "data": [value]})


@behaviour("authoring/AU36")
def test_an_object_shows_kind_name_version_and_uid() -> None:
    assert repr(Object(WEB)) == f"Object(apps/v1 Deployment default/web, rv='17', uid='{UID}')"
    # Of a wide object all the same.
    assert repr(large({str(n): "x" * 100 for n in range(10_000)})) == repr(Object(WEB))
    assert repr(Object({"metadata": {"name": "a"}})) == "Object(a)"
    assert repr(partial_pod()) == "Object(v1 Pod shop/web-0, rv='17', uid='5f0c', partial)"


@behaviour("authoring/AU36")
@pytest.mark.parametrize("length", [1, 14, 15, 33, 60, 100_000])
@pytest.mark.parametrize("uid", [UID, "", "u" * 1000, "é'\n" * 100])
def test_the_text_of_an_object_is_at_most_120_characters(length: int, uid: str) -> None:
    metadata = {"name": "n" * length, "namespace": "default", "resourceVersion": "1" * 20, "uid": uid}
    text = repr(Object({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}))
    assert len(text) <= 120
    assert text.startswith("Object(apps/v1 Deployment default/n")
    assert "rv='11111111111111111111'" in text
    assert text.endswith(")")
    assert "\n" not in text
    if uid == UID:
        assert f"uid='{UID}'" in text
        assert ("…" in text) == (length > 14)


@behaviour("authoring/AU36")
@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": 1, "b": [True, None, 1.5, -0.0, 10**30], "c": {"d": "it's", "e": 'say "hi"', "f": "✓\n"}},
        [[], {}, [[1]], "x" * 150],
        ["x" * 196],
        {"k" * 190: 1},
    ],
)
def test_a_view_shows_as_the_dict_or_list(value: Any) -> None:
    assert len(repr(value)) <= 200
    assert repr(large(value)["spec"]) == repr(value)


@behaviour("authoring/AU36")
@pytest.mark.parametrize(
    "value",
    [
        ["x" * 197],
        ["x" * 1_000_000],
        {"k" * 1_000_000: 1},
        {str(number): "x" * 100 for number in range(10_000)},
        list(range(200_000)),
        [10**4000],
        ["é" * 500_000],
        json.loads("[" * 900 + "]" * 900),
    ],
)
def test_the_text_of_a_view_is_cut_at_200_characters(value: Any) -> None:
    view = large(value)["spec"]
    assert type(view) in (MapView, ListView)
    assert repr(view) == repr(value)[:199] + "…"


def test_of_duplicate_keys_the_text_of_a_view_has_the_last() -> None:
    obj = Object('{"metadata": {"name": "a"}, "spec": {"a": 1, "b": 2, "a": 3}}')
    assert repr(obj["spec"]) == "{'a': 3, 'b': 2}"


@behaviour("authoring/AU37")
@pytest.mark.parametrize("wrap", [lambda obj: obj, lambda obj: [obj["spec"], {"x": obj["metadata"]["labels"]}]])
def test_objects_and_views_are_encoded_as_json_at_any_depth(wrap: Any) -> None:
    obj = Object(POD)
    nested = Object({"metadata": {"name": "b"}, "whole": obj, "deep": {"list": [obj["spec"], obj]}})
    assert json.loads(json.dumps(nested, default=ctrlhost.plain)) == json.loads(nested.to_json())
    text = json.dumps({"of": wrap(obj)}, default=ctrlhost.plain)
    assert json.loads(text) == {"of": wrap(json.loads(obj.to_json()))}


@behaviour("authoring/AU38")
def test_copies_are_the_same_object_and_plain_is_a_fresh_one() -> None:
    obj = Object(POD)
    for view in (obj, obj["spec"], obj["spec"]["containers"], obj.labels):
        assert copy.copy(view) is view
        assert copy.deepcopy(view) is view
        assert copy.deepcopy({"in": [view]})["in"][0] is view
    fresh, again = ctrlhost.plain(obj), ctrlhost.plain(obj)
    assert type(fresh) is dict
    assert fresh == again == POD
    fresh["spec"]["containers"][0]["name"] = "changed"
    fresh["metadata"]["labels"].clear()
    assert obj == again == POD
    containers = ctrlhost.plain(obj["spec"]["containers"])
    assert type(containers) is list
    containers.append({})
    assert len(obj["spec"]["containers"]) == 1
    for change in (
        lambda: obj.__setitem__("spec", {}),  # type: ignore[operator]
        lambda: obj["spec"].__delitem__("nodeName"),
        lambda: obj["spec"]["containers"].__setitem__(0, {}),
        lambda: obj.labels.__setitem__("a", "b"),  # type: ignore[operator]
    ):
        with pytest.raises(TypeError, match=r"to_dict\(\) or ctrlhost\.plain\(\)"):
            change()


def test_plain_copies_data_that_holds_views() -> None:
    obj = Object(POD)
    mixed = {"a": (obj["spec"], 1, "x"), "b": MappingProxyType({"c": [obj]}), "d": None, "e": 0.5, "f": True}
    plain = ctrlhost.plain(mixed)
    assert plain == {"a": [POD["spec"], 1, "x"], "b": {"c": [POD]}, "d": None, "e": 0.5, "f": True}
    assert (type(plain["a"][0]), type(plain["b"]), type(plain["b"]["c"][0])) == (dict, dict, dict)
    assert ctrlhost.plain("text") == "text"
    with pytest.raises(TypeError, match="object is not a JSON type"):
        ctrlhost.plain([object()])
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="contains itself"):
        ctrlhost.plain(endless)
    with pytest.raises(ctrlhost.PartialObject, match="only a part of Pod shop/web-0"):
        ctrlhost.plain(partial_pod())


@behaviour("authoring/AU39")
@pytest.mark.parametrize(
    ("path", "right"),
    [
        (("spec.size",), '"spec", "size"'),
        (("spec.template.spec", "containers", 0, "name"), '"spec", "template", "spec", "containers", 0, "name"'),
        (("spec.list", -1), '"spec", "list", -1'),
    ],
)
def test_a_path_with_dots_is_refused_with_the_right_call(path: tuple[str | int, ...], right: str) -> None:
    with pytest.raises(ValueError, match="one argument per step") as caught:
        Object(WEB).get_path(*path)
    assert str(caught.value) == f"one argument per step: get_path({right})"


@behaviour("authoring/AU39")
def test_later_steps_may_have_dots() -> None:
    labels = {"app.kubernetes.io/name": "web"}
    obj = Object({"metadata": {"name": "a", "labels": labels}, "data": {"a.conf": "x"}})
    assert obj.get_path("metadata", "labels", "app.kubernetes.io/name") == "web"
    assert obj.get_path("data", "a.conf") == "x"
    # The first step of a view is a key of the map.
    assert obj.labels.get_path("app.kubernetes.io/name") == "web"


@ctrlhost.resource("apps/v1")
class ReplicaSet(ctrlhost.Model[dict[str, Any], None]):
    """A model."""


class Metadata(msgspec.Struct):
    uid: str | None


class ReadStruct(msgspec.Struct):
    """A struct with the fields that somebody reads."""

    metadata: Metadata


def reference(uid: str, *, controller: bool) -> dict[str, Any]:
    fields = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid}
    return {**fields, "controller": True} if controller else fields


def owned(*references: dict[str, Any]) -> Object:
    return Object({"metadata": {"name": "a", "ownerReferences": list(references)}})


def forms(uid: str | None) -> list[Any]:
    raw = {"metadata": {"name": "web", "uid": uid}}
    model = ReplicaSet(metadata=ctrlhost.ObjectMeta(name="web", uid=uid or ""), spec={})
    return [Object(raw), raw, MappingProxyType(raw), model, ReadStruct(Metadata(uid))]


@behaviour("authoring/AU40")
def test_the_controller_is_the_owner_that_controls() -> None:
    other, controlling = reference("u1", controller=False), reference("u2", controller=True)
    assert owned().controller is None
    assert owned(other).controller is None
    obj = owned(other, controlling)
    assert obj.controller == obj.owner_references[1]
    assert obj.controller is not None
    assert (obj.controller.uid, obj.controller.controller) == ("u2", True)
    for owner in forms("u2"):
        assert obj.is_controlled_by(owner)
        assert not owned().is_controlled_by(owner)
        assert not owned(reference("u2", controller=False)).is_controlled_by(owner)
    # Of the same name, but another object: an owner that does not control, and one made anew.
    for uid in ("u1", "u3", "", None):
        assert [obj.is_controlled_by(owner) for owner in forms(uid)] == [False] * 5


def test_an_owner_without_a_uid_controls_nothing() -> None:
    obj = owned(reference("", controller=True))
    for owner in ({"metadata": {"name": "a"}}, {}, {"metadata": {"uid": ""}}):
        assert not obj.is_controlled_by(owner)
    with pytest.raises(TypeError, match="an Object, a mapping or a model, got str"):
        obj.is_controlled_by("web")
