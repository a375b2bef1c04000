"""The desired object: plain JSON, its digest, and what of it is compared."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.cache import Object
from ctrlhost.declarative.desired import annotation_of, desired_of, mapping_of


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": data}


def secret(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, **fields}


def test_the_digest_is_that_of_the_sorted_json() -> None:
    obj = config_map(b="1", a="2")
    text = json.dumps(obj, sort_keys=True, separators=(",", ":"))
    assert desired_of(obj).digest == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert desired_of(config_map(a="2", b="1")).digest == desired_of(obj).digest
    assert desired_of(config_map(a="2")).digest != desired_of(obj).digest


@pytest.mark.parametrize("obj", ["x", None, [1], ctrlhost.Request("one")])
def test_what_is_neither_mapping_nor_model_is_refused(obj: Any) -> None:
    with pytest.raises(TypeError, match="an object must be a mapping or a model, got"):
        mapping_of(obj)


def test_the_annotation_names_the_plugin() -> None:
    assert annotation_of("memcached") == "applied.ctrlhost.dev/memcached"


def test_the_digest_of_a_secret_covers_only_its_paths() -> None:
    desired = desired_of(secret(data={"password": "MQ=="}))
    assert desired.digest == desired_of(secret(data={"password": "Mg=="})).digest
    assert desired.digest != desired_of(secret(data={"other": "MQ=="})).digest


def test_string_data_of_a_secret_is_sent_and_compared_as_data() -> None:
    desired = desired_of(secret(stringData={"password": "new"}, data={"user": "dQ=="}))
    assert desired.content["data"] == {"user": "dQ==", "password": "bmV3"}
    assert "stringData" not in desired.content
    assert not desired.differing(secret(data={"user": "dQ==", "password": "bmV3"}), None)
    assert [leaf.path for leaf in desired.differing(secret(data={"user": "dQ==", "password": "b2xk"}), None)] == [
        ("data", "password")
    ]


def test_views_tuples_and_times_become_json() -> None:
    cached = Object(config_map(a="1"))
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one", "labels": MappingProxyType({"l": "1"}), "finalizers": ("a/b",)},
        "data": cached["data"],
        "at": datetime(2026, 1, 2, tzinfo=UTC),
    }
    assert desired_of(obj).content == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one", "labels": {"l": "1"}, "finalizers": ["a/b"]},
        "data": {"a": "1"},
        "at": "2026-01-02T00:00:00Z",
    }
    assert desired_of(cached).content == cached.to_dict()


@pytest.mark.parametrize(
    ("obj", "error", "message"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, ValueError, "apiVersion and kind"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, ValueError, "apiVersion and kind"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, ValueError, "a ConfigMap needs metadata.name"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}, ValueError, "metadata.name"),
        ([1], TypeError, "mapping or a model"),
        ({**config_map(), "x": object()}, TypeError, "has no form in JSON"),
    ],
)
def test_what_is_no_object_is_refused(obj: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        desired_of(obj)


class Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


@ctrlhost.resource("example.com/v1", kind="Thing")
class Model(msgspec.Struct, rename="camel"):
    metadata: Metadata
    spec: dict[str, Any]
    status: dict[str, Any] | None = None
    api_version: str = "example.com/v1"
    kind: str = "Thing"


def test_of_a_model_only_what_it_says_is_written() -> None:
    model = Model(Metadata("one", "uid", "5", {"a": "b"}), {"size": 1, "image": None}, {"ready": 1})
    assert desired_of(model).content == {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "one", "labels": {"a": "b"}},
        "spec": {"size": 1},
    }
    with pytest.raises(TypeError, match="Metadata is not a kind"):
        desired_of(Metadata("one"))


def test_identity_and_the_servers_own_metadata_are_not_compared() -> None:
    desired = desired_of(config_map(a="1") | {"metadata": {"name": "one", "labels": {"x": "1"}}})
    live = Object(
        {**config_map(a="1"), "metadata": {"name": "one", "namespace": "n", "uid": "u", "labels": {"x": "1"}}}
    )
    assert desired.differing(live, None) == []
    other = {**live.to_dict(), "metadata": {"name": "one", "labels": {"x": "2"}}}
    assert [leaf.path for leaf in desired.differing(other, None)] == [("metadata", "labels", "x")]


class Spec(msgspec.Struct, frozen=True):
    size: int = 1


@ctrlhost.resource("cache.example.com/v1", kind="Memcached")
class Cache(ctrlhost.Model[Spec, None], frozen=True):
    """A kind of the plugin."""


def test_the_kind_of_a_model_is_that_of_its_declaration() -> None:
    cache = Cache(metadata=ctrlhost.ObjectMeta(name="one", uid="u", namespace="n"), spec=Spec(2))
    assert desired_of(cache).content == {
        "apiVersion": "cache.example.com/v1",
        "kind": "Memcached",
        "metadata": {"name": "one", "namespace": "n"},
        "spec": {"size": 2},
    }
    owner = mapping_of(cache)
    assert (owner["apiVersion"], owner["kind"]) == ("cache.example.com/v1", "Memcached")
    assert owner["metadata"]["uid"] == "u"


def test_a_label_that_is_null_counts_as_absent() -> None:
    obj = config_map()
    obj["metadata"] |= {"labels": {"a": None, "b": "1"}, "annotations": {"a": None}}
    assert desired_of(obj).content["metadata"] == {"name": "one", "labels": {"b": "1"}}
    assert desired_of(obj).digest == desired_of(obj | {"metadata": {"name": "one", "labels": {"b": "1"}}}).digest


@pytest.mark.parametrize("name", ["labels", "annotations"])
def test_labels_and_annotations_are_texts(name: str) -> None:
    desired = desired_of(config_map() | {"metadata": {"name": "one", name: {"version": "1.10", "mine": ""}}})
    live = {**config_map(), "metadata": {"name": "one", name: {"version": "1.1", "theirs": "a"}}}
    assert [leaf.path[1:] for leaf in desired.differing(live, None)] == [(name, "mine"), (name, "version")]
    equal = {**live, "metadata": {"name": "one", name: {"version": "1.10", "mine": "", "theirs": "a"}}}
    assert not desired.differing(equal, None)


@pytest.mark.parametrize("status", [{}, None])
def test_the_empty_status_that_kubectl_prints_is_not_written(status: Any) -> None:
    assert desired_of(config_map() | {"status": status}).content == config_map()
    assert desired_of(config_map() | {"status": {"a": 1}}).content["status"] == {"a": 1}
