"""What `ctx.ensure` remembers of objects that were as they are wanted, and whom a tracked object wakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ctrlhost import Request
from ctrlhost.cache import Object
from ctrlhost.declarative.child import Child
from ctrlhost.declarative.desired import desired_of, encode
from ctrlhost.declarative.tracked import Tracked
from ctrlhost.declarative.unchanged import Unchanged

OWNER = Object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "namespace": "n", "uid": "u"}})


def config_map(version: str = "1", uid: str = "c", **data: str) -> dict[str, Any]:
    metadata = {"name": "c", "namespace": "n", "uid": uid, "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class Cache:
    """A context whose cache has one object."""

    def __init__(self, obj: dict[str, Any] | None) -> None:
        self.obj = None if obj is None else Object(obj)
        self._scope = SimpleNamespace(owned={("v1", "ConfigMap"): self})

    def get(self, name: str, namespace: str) -> Object | None:
        assert (name, namespace) == ("c", "n")
        return self.obj


def found(unchanged: Unchanged, live: dict[str, Any] | None, wanted: dict[str, Any], owner: Object = OWNER) -> bool:
    context: Any = Cache(live)
    return unchanged.find(context, Unchanged.key(owner, encode(wanted))) is not None


def keep(unchanged: Unchanged, wanted: dict[str, Any], live: dict[str, Any]) -> None:
    child = Child(desired_of(wanted), OWNER, OWNER.uid, "n", OWNER, "a")
    unchanged.keep(Unchanged.key(OWNER, encode(wanted)), child, Object(live))


def test_an_object_is_compared_again_when_anything_about_it_is_another() -> None:
    unchanged, wanted, live = Unchanged(), config_map(k="v"), config_map("7", k="v")
    assert not found(unchanged, live, wanted)
    keep(unchanged, wanted, live)
    assert found(unchanged, live, wanted)
    assert not found(unchanged, config_map("8", k="v"), wanted)
    assert not found(unchanged, config_map("7", "other", k="v"), wanted)
    assert not found(unchanged, None, wanted)
    assert not found(unchanged, live, config_map(k="w"))
    other = Object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "namespace": "n", "uid": "x"}})
    assert not found(unchanged, live, wanted, other)


def test_the_oldest_are_forgotten() -> None:
    unchanged = Unchanged(objects=2)
    for value in "abc":
        keep(unchanged, config_map(k=value), config_map(k=value))
    assert [found(unchanged, config_map(k=value), config_map(k=value)) for value in "abc"] == [False, True, True]


def test_a_tracked_object_without_its_annotation_wakes_the_owner_whose_uid_its_label_has() -> None:
    others = [Object({**OWNER.to_dict(), "metadata": {"name": "p", "namespace": "n", "uid": "v"}}), OWNER]
    scope: Any = SimpleNamespace(primary=SimpleNamespace(lister=SimpleNamespace(list=lambda: others)))
    owners = Tracked("v1", "ConfigMap", mark="m")._mapping(scope)
    for labels, noted, wanted in (
        ({"m": "u"}, {"m": "n/other"}, [Request("other", "n")]),
        ({"m": "u"}, {}, [Request("o", "n")]),
        ({"m": "u"}, {"m": "no name"}, [Request("o", "n")]),
        ({"m": "nobody"}, {}, []),
        ({}, {}, []),
    ):
        obj = config_map()
        obj["metadata"] |= {"labels": labels, "annotations": noted}
        assert owners(Object(obj)) == wanted
