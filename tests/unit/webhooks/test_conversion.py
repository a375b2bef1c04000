"""Conversions: chains, metadata, and answers to reviews."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise, permutations
from types import MappingProxyType
from typing import Any

import pytest

from ctrlhost.webhooks.conversion import Converters
from ctrlhost.webhooks.envelope import InvalidReview

behaviour = pytest.mark.behaviour


def step(source: str, target: str) -> Any:
    """Return a conversion that remembers its way."""
    return lambda obj: {**obj, "spec": {"way": [*obj["spec"]["way"], f"{source}-{target}"]}}


def converters(*pairs: tuple[str, str], versions: str = "abcde", stored: str = "a", **functions: Any) -> Converters:
    """Return the conversions of a kind between these versions."""
    listed = [{"name": name, "served": name != "z", "storage": name == stored} for name in versions]
    names = {"kind": "Cache", "plural": "caches"}
    crd = {"spec": {"group": "example.com", "names": names, "versions": listed}}
    return Converters("demo", crd, {pair: functions.get("".join(pair)) or step(*pair) for pair in pairs})


def both(text: str) -> list[tuple[str, str]]:
    """Return the pairs of neighbours, in both directions."""
    return [*pairwise(text), *zip(text[1:], text, strict=False)]


def cache(version: str, name: str = "web", **metadata: Any) -> dict[str, Any]:
    content = {"name": name, "namespace": "shop", "uid": "7", **metadata}
    return {"apiVersion": f"example.com/{version}", "kind": "Cache", "metadata": content, "spec": {"way": []}}


def answer(conversions: Converters, version: str, *objects: dict[str, Any]) -> dict[str, Any]:
    request = {"uid": "42", "desiredAPIVersion": f"example.com/{version}", "objects": list(objects)}
    body = json.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    ).encode()
    answered = json.loads(conversions.answer(body))
    assert (answered["apiVersion"], answered["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    response: dict[str, Any] = answered["response"]
    assert response["uid"] == "42"
    return response


@behaviour("webhooks/WH18")
def test_a_chain_is_the_shortest_and_else_that_through_the_stored_version() -> None:
    line = converters(*both("abcd"), versions="abcd")
    assert line.chain("a", "d") == ("a", "b", "c", "d")
    assert line.missing() == []
    [converted] = answer(line, "d", cache("a"))["convertedObjects"]
    assert (converted["apiVersion"], converted["spec"]["way"]) == ("example.com/d", ["a-b", "b-c", "c-d"])
    # A direct function wins, and of two ways of the same length the one through the stored version.
    assert converters(*both("abcd"), ("a", "d")).chain("a", "d") == ("a", "d")
    assert converters(*both("abd"), *both("acd"), stored="c").chain("a", "d") == ("a", "c", "d")
    assert converters(*both("acd"), *both("abd"), stored="b").chain("a", "d") == ("a", "b", "d")


@behaviour("webhooks/WH18")
def test_a_chain_has_at_most_four_versions() -> None:
    conversions = converters(*both("abcde"))
    assert conversions.chain("a", "e") == ()
    assert conversions.missing() == [("a", "e"), ("e", "a")]
    # A version that is neither served nor stored needs no way, but may be on one.
    through = converters(*both("azb"), versions="azb")
    assert through.missing() == []
    assert through.chain("a", "b") == ("a", "z", "b")
    assert converters(versions="ab").missing() == list(permutations("ab", 2))


@behaviour("webhooks/WH18")
@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (lambda obj: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
        (lambda obj: None, "TypeError: returned NoneType; it must return the object as a mapping"),
        (lambda obj: {**obj, "spec": object()}, "TypeError: Encoding objects of type object is unsupported"),
    ],
)
def test_an_object_that_fails_fails_the_review_with_its_name(
    function: Any, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    conversions = converters(
        *both("ab"), versions="ab", ab=lambda obj: function(obj) if obj["spec"].get("bad") else obj
    )
    bad = {**cache("a", "second"), "spec": {"bad": True, "way": []}}
    response = answer(conversions, "b", cache("a"), bad, cache("a", "third"))
    message = "plugin demo: Cache shop/second: the conversion from a to b failed"
    assert response == {
        "uid": "42",
        "result": {"status": "Failure", "message": message},
        "convertedObjects": [],
    }
    [record] = caplog.records
    assert (record.name, record.getMessage()) == ("ctrlhost.plugin.demo", message)
    assert record.exc_info is not None
    assert f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}" == cause


def test_metadata_stays_but_labels_and_annotations() -> None:
    def renames(obj: dict[str, Any]) -> dict[str, Any]:
        # What is given is a copy.
        metadata = obj["metadata"]
        metadata |= {"name": "other", "uid": "8", "labels": {"new": "1"}, "annotations": {}}
        return {**obj, "apiVersion": "x/v1", "kind": "Other"}

    def bare(obj: dict[str, Any]) -> Mapping[str, Any]:
        return MappingProxyType({"spec": obj["spec"]})

    conversions = converters(("a", "b"), ("b", "a"), versions="ab", ab=renames, ba=bare)
    sent = cache("a", labels={"old": "1"}, annotations={"old": "2"}, finalizers=["x/y"])
    [converted] = answer(conversions, "b", sent)["convertedObjects"]
    expected = {"name": "web", "namespace": "shop", "uid": "7", "finalizers": ["x/y"], "labels": {"new": "1"}}
    assert converted == {**cache("b"), "metadata": expected}
    [back] = answer(conversions, "a", converted)["convertedObjects"]
    assert back == {**cache("a"), "metadata": expected}


def test_an_object_of_the_wanted_version_stays_and_one_of_an_unknown_version_fails() -> None:
    conversions = converters(*both("ab"), versions="ab")
    assert answer(conversions, "a", cache("a"))["convertedObjects"] == [cache("a")]
    assert answer(conversions, "x", cache("a"))["result"]["message"].endswith("no conversion from a to x")
    assert (conversions.path, conversions.crd_name) == ("/convert/example.com/caches", "caches.example.com")


def test_an_object_with_metadata_of_another_type_fails() -> None:
    broken = {**cache("a"), "metadata": "web"}
    response = answer(converters(("a", "b")), "b", broken)
    assert response["result"]["message"] == "plugin demo: Cache: the conversion from a to b failed"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"a":' * 100_000, b'{"apiVersion":"apiextensions.k8s.io/v1beta1"}']
)
def test_a_body_that_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidReview, match="ConversionReview"):
        converters().answer(body)
