"""What is wrong with custom objects: the sandbox's causes and those of a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.compared import Pair
from tests.support.http_client import APPLY, MERGE
from tests.support.waiting import eventually

TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
INT32 = {**INTEGER, "format": "int32"}
TWO = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}}
EITHER = [{"required": ["a"]}, {"required": ["b"]}]
LIST, MAP = {"type": "array", "items": INTEGER}, {"type": "object", "additionalProperties": INTEGER}
MIXED = {"x-kubernetes-int-or-string": True}

#: Schemas, and values that do not fit them or only just.
CASES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "atMostOneItem": ({**LIST, "maxItems": 1}, [[1, 2], [1], "x"]),
    "noItem": ({**LIST, "maxItems": 0}, [[1]]),
    "atMostTwoItems": ({**LIST, "maxItems": 2}, [[1, 2, 3]]),
    "atLeastItems": ({**LIST, "minItems": 2}, [[1], []]),
    "atMostOneMember": ({**MAP, "maxProperties": 1}, [{"a": 1, "b": 2}, 3]),
    "atLeastMembers": ({**MAP, "minProperties": 2}, [{"a": 1}, {}]),
    "shortPattern": ({**TEXT, "minLength": 3, "pattern": "^b+$"}, ["a", "b", "aaa", "bbb"]),
    "longPattern": ({**TEXT, "maxLength": 3, "pattern": "^b+$"}, ["aaaaa", "aaa", "bbbb"]),
    "longDate": ({**TEXT, "maxLength": 1, "pattern": "^x$", "format": "date"}, ["zzz", [1], 3]),
    "shortAddress": ({**TEXT, "minLength": 3, "format": "ipv4"}, ["x"]),
    "oneByte": ({**TEXT, "maxLength": 1}, ["ab", "éé"]),
    "choice": ({**TEXT, "enum": ["a", "b"]}, ["c", 3, True, [1], None, 1.5]),
    "numberChoice": ({**INTEGER, "enum": [1, 2]}, ["x", 5, 1.5, 2.5, True]),
    "choiceAndMore": ({**TEXT, "enum": ["a"], "minLength": 3, "pattern": "^b$"}, ["c", 7]),
    "mixedChoice": ({**MIXED, "enum": [1, "a"]}, [2, "b", True, 1.5]),
    "nullableChoice": ({**TEXT, "nullable": True, "enum": ["a", None]}, [None, "c"]),
    "nullableText": ({**TEXT, "nullable": True, "allOf": [{"enum": ["a"]}]}, ["c"]),
    "beyondInt32": ({**INT32, "maximum": 5_000_000_000}, [6_000_000_000, 3_000_000_000, 1]),
    "belowInt32": ({**INT32, "minimum": -5_000_000_000}, [-6_000_000_000, -3_000_000_000]),
    "large": ({**INTEGER, "maximum": 5_000_000_000}, [6_000_000_000, 6e9, 7e18, 10**30]),
    "withinInt32": ({**INT32, "maximum": 10, "minimum": 1}, [11, 0, 3_000_000_000, 1e6, 2.5]),
    "int32": (INT32, [3_000_000_000, -3_000_000_000, 1.5, "x", True, [1], 2.0]),
    "int64": ({**INTEGER, "format": "int64"}, [1e30, 10**30, 9_223_372_036_854_775_807, 1.5, "x"]),
    "float": ({**NUMBER, "format": "float"}, [1e300, "x", True, 3]),
    "fraction": ({**NUMBER, "maximum": 1.5, "minimum": -1.5}, [2.5, -2.5, 2, -2, 1, 1e20, 123456789.5, 0.00001]),
    "exclusive": (
        {**INTEGER, "maximum": 5, "exclusiveMaximum": True, "minimum": 1, "exclusiveMinimum": True},
        [5, 1, 0.5, 6],
    ),
    "multiple": ({**INTEGER, "multipleOf": 3}, [4, 4.5, 6]),
    "smallMultiple": ({**NUMBER, "multipleOf": 0.1}, [0.15, 0.3]),
    "oneOf": ({**TWO, "oneOf": EITHER}, [{}, {"a": 1, "b": 2}, {"a": 1}, 3]),
    "oneText": ({**TEXT, "oneOf": [{"pattern": "^a"}, {"pattern": "b$"}]}, ["x", "ab", "a", 3]),
    "oneNumber": ({**INTEGER, "oneOf": [{"minimum": 5}, {"maximum": 3}, {"multipleOf": 2}]}, [4, 6, 7]),
    "anyOf": ({**TWO, "anyOf": EITHER}, [{}, {"b": 1}, 3]),
    "anyText": ({**TEXT, "anyOf": [{"pattern": "^a"}, {"minLength": 3, "pattern": "b$"}]}, ["x", "xxxx"]),
    "anyMixed": ({**MIXED, "pattern": "^a", "anyOf": [INTEGER, TEXT]}, ["b", 1, 1.5, True]),
    "allOf": ({**TEXT, "allOf": [{"pattern": "^a"}, {"minLength": 3}, {"maxLength": 1}]}, ["bb", "a", "abc"]),
    "not": ({**TEXT, "not": {"pattern": "^a"}}, ["a", "b", 3]),
    "notMember": ({**TWO, "not": {"required": ["a"]}}, [{"a": 1}, {"b": 1}]),
    "required": ({**TWO, "required": ["a", "b"]}, [{}, {"a": "x"}, []]),
    "nested": ({"type": "array", "items": {**LIST, "maxItems": 1}}, [[[1, 2]], [[1], [1, 2], ["x"]]]),
}


@pytest.mark.behaviour("findings/FS23")
def test_causes_of_invalid_values(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    fields = {name: schema for name, (schema, _) in CASES.items()}
    crd = pair_crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
    refused = 0
    for name, (_, values) in CASES.items():
        for value in values:
            code, _ = pair.ask("POST", crd.path(pair.namespace), crd.obj(**{name: value}), dryRun="All")
            refused += code == 422
    assert refused > 80
    several = crd.obj(atMostOneItem=[1, 2], shortPattern="a", oneOf={}, beyondInt32=6_000_000_000)
    assert len(pair.ask("POST", crd.path(pair.namespace), several)[1]["causes"]) == 7


@pytest.mark.behaviour("findings/FS23")
@pytest.mark.parametrize(
    "backend",
    [
        *({"service": {"name": "s", "port": {"number": number}}} for number in (0, -1, 70000)),
        *({"service": {"name": "s", "port": {"name": name}}} for name in ("", "A_", "a" * 16, "80", "a--b", "-a")),
        {"service": {"name": "s", "port": {"number": 80, "name": "x"}}},
        {"service": {"name": "s"}},
        {"service": {"port": {"number": 80}}},
        {"service": {"name": "S_", "port": {"number": 80}}},
        {"service": {"name": "s", "port": {"number": 80}}, "resource": {"kind": "X", "name": "y"}},
        {"resource": {}},
        {},
    ],
)
def test_backends_of_an_ingress(pair: Pair, backend: dict[str, Any]) -> None:
    path = f"/apis/networking.k8s.io/v1/namespaces/{pair.namespace}/ingresses"
    body = {"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}}
    assert pair.ask("POST", path, body)[0] == 422
    route = {"path": "/", "pathType": "Prefix", "backend": backend}
    body = {"metadata": {"name": "i"}, "spec": {"rules": [{"http": {"paths": [route]}}]}}
    assert pair.ask("POST", path, body)[0] == 422


EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
MISFITS: list[dict[str, Any]] = [
    *({"metadata": value} for value in ("x", [], 3, True, None, {}, {"foo": 1})),
    *({"metadata": {"labels": value}} for value in ("x", {"a": 1}, {"_": "_"}, {}, None)),
    *({"metadata": {"name": value}} for value in (3, "A_")),
    *({"metadata": {"finalizers": value}} for value in ("x", [1])),
    {"metadata": {"generation": "x"}},
    {"metadata": {"creationTimestamp": "x"}},
    {"metadata": {"ownerReferences": [{"name": 3}]}},
    *({"apiVersion": value} for value in (3, "a/b/c", "")),
    *({"kind": value} for value in (3, "a b", "")),
]


@pytest.mark.behaviour("findings/FS23")
def test_objects_in_objects(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    fields = {"one": EMBEDDED, "many": {"type": "array", "items": EMBEDDED}}
    crd = pair_crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
    codes = set()
    for changes in MISFITS:
        inner = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, **changes}
        for spec in ({"one": inner}, {"many": [inner]}):
            code, _ = pair.ask("POST", crd.path(pair.namespace), crd.obj(**spec), dryRun="All")
            codes.add(code)
            if code == 201:
                specs = [
                    obj["spec"] for obj in pair.done("POST", crd.path(pair.namespace), crd.obj(**spec), dryRun="All")
                ]
                assert specs[0] == specs[1]
    assert codes == {201, 400, 422}


def version(name: str, *, storage: bool, **fields: dict[str, Any]) -> dict[str, Any]:
    spec = {"type": "object", "properties": fields}
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": {**EMBEDDED, "x-kubernetes-embedded-resource": False}},
    }
    entry = {"name": name, "served": True, "storage": storage, "subresources": {"status": {}}}
    return {**entry, "schema": {"openAPIV3Schema": schema}}


def plain(obj: dict[str, Any]) -> dict[str, Any]:
    """Return what two servers must store alike. A real one drops its managers after an update in another version."""
    metadata = {key: obj["metadata"][key] for key in ("name", "generation")}
    return {**obj, "metadata": metadata}


@pytest.mark.behaviour("findings/FS18")
def test_another_version_is_pruned_to_the_stored_one(pair: Pair, group: str) -> None:
    names = {"plural": "widgets", "kind": "Widget"}
    versions = [
        version("v1", storage=True, a=INTEGER, b={**INTEGER, "default": 5}),
        version("v2", storage=False, a=INTEGER, c=INTEGER, d={**INTEGER, "default": 7}),
    ]
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }
    for api in (pair.ours, pair.theirs):
        Crd(api, body).establish()
    crd = Crd(pair.ours, body)

    def path(version: str, name: str = "") -> str:
        return crd.path(pair.namespace, name, version)

    def obj(version: str, name: str, **spec: int) -> dict[str, Any]:
        return {**crd.obj(name, **spec), "apiVersion": f"{group}/{version}"}

    def done(method: str, where: str, body: Any = None, **more: Any) -> dict[str, Any]:
        ours, theirs = pair.done(method, where, body, **more)
        assert plain(ours) == plain(theirs)
        spec: dict[str, Any] = ours["spec"]
        return spec

    for api in (pair.ours, pair.theirs):
        for name in ("v1", "v2"):
            eventually(lambda api=api, name=name: api.get(path(name)).status == 200)
    assert done("POST", path("v2"), obj("v2", "x", a=1, c=2), dryRun="All") == {"a": 1}
    assert done("POST", path("v2"), obj("v2", "x", a=1, c=2)) == {"a": 1}
    assert done("GET", path("v1", "x")) == {"a": 1, "b": 5}
    assert done("GET", path("v2", "x")) == {"a": 1}
    done("POST", path("v1"), obj("v1", "y", a=1, b=2))
    assert done("GET", path("v2", "y")) == {"a": 1}
    assert done("PATCH", path("v2", "y"), {"spec": {"c": 9}}, content_type=MERGE) == {"a": 1}
    assert done("GET", path("v1", "y")) == {"a": 1, "b": 5}
    applied = {"content_type": APPLY, "fieldManager": "m"}
    assert done("PATCH", path("v2", "z"), obj("v2", "z", a=1, c=3), **applied) == {"a": 1}
    assert done("PATCH", f"{path('v2', 'z')}/status", {"status": {"e": 1}}, content_type=MERGE) == {"a": 1}
    assert done("GET", path("v1", "z")) == {"a": 1, "b": 5}
    lists = pair.done("GET", path("v2"))
    assert list(map(plain, lists[0]["items"])) == list(map(plain, lists[1]["items"]))
    for api in (pair.ours, pair.theirs):
        events = api.watch(path("v2"))
        assert [event["object"]["spec"] for event in events.take(3)] == [{"a": 1}] * 3


@pytest.mark.behaviour("findings/FS22")
@pytest.mark.behaviour("findings/FS22c")
def test_unknown_fields_cannot_be_preserved_as_a_whole(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd()
    merge = {"spec": {"preserveUnknownFields": True}}
    assert pair.ask("PATCH", crd.url, merge, content_type=MERGE)[0] == 422
    path = crd.url.rpartition("/")[0]
    for value, code in ((True, 422), ("x", 400), (False, 201), (None, 201)):
        other = {**crd.body, "metadata": {"name": f"gadgets.{crd.group}"}}
        names = {"plural": "gadgets", "kind": "Gadget"}
        other["spec"] = {**crd.body["spec"], "names": names, "preserveUnknownFields": value}
        assert pair.ask("POST", path, other, dryRun="All")[0] == code


@pytest.mark.parametrize("status", [None, {"conditions": None}, {"acceptedNames": None}, {"storedVersions": []}])
def test_a_wiped_status_of_a_crd(pair: Pair, pair_crd: Callable[..., Crd], status: Any) -> None:
    crd = pair_crd()
    wiped = [obj["status"] for obj in pair.done("PATCH", f"{crd.url}/status", {"status": status}, content_type=MERGE)]
    assert [sorted(fields) for fields in wiped] == [["acceptedNames", "conditions", "storedVersions"]] * 2
    for field in ("acceptedNames", "storedVersions"):
        assert wiped[0][field] == wiped[1][field]
    assert [fields["conditions"] is None for fields in wiped] in ([True, True], [False, False])
    if status is None or "conditions" in status:
        assert wiped[0]["conditions"] is None
