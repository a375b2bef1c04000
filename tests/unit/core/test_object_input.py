"""Construction of objects: refused input, and unusual JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from ctrlhost.cache import Object


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "unexpected end"),
        (b"[]", "not a JSON object"),
        (b"7 ", "not a JSON object"),
        (b"7", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{", "unexpected end"),
        (b'{"metadata":{"name":"a"}', "unexpected end"),
        (b'{"metadata":{"name":"a"}} x', "unexpected data after"),
        (b'{"metadata":{"name":"a"},}', "expected a key"),
        (b'{"metadata":{"name":"a"},"b":01}', "not a number"),
        (b'{"metadata":{"name":"a"},"b":1.}', "not a number"),
        (b'{"metadata":{"name":"a"},"b":+1}', "expected a value"),
        (b'{"metadata":{"name":"a"},"b":nul}', "expected a value"),
        (b'{"metadata":{"name":"a"},"b":NaN}', "expected a value"),
        (b'{"metadata":{"name":"a"},"b":"\\x"}', "unknown escape"),
        (b'{"metadata":{"name":"a"},"b":"\\u12g4"}', "escape"),
        (b'{"metadata":{"name":"a"},"b":"\n"}', "control character"),
        (b'{"metadata":{"name":"a"},"b":[1 2]}', "expected"),
        (b'{"metadata":{"name":"a"},"b":[1}', "expected"),
        (b'{"metadata":{"name":"a"},"b":{1:2}}', "expected"),
        (b'{"metadata":{"name":"a"} "b":1}', "expected"),
        (b'{"metadata":{"name":"\xff"}}', "UTF-8"),
        (b"{}", "metadata.name"),
        (b'{"metadata":null}', "metadata.name"),
        (b'{"metadata":{}}', "metadata.name"),
        (b'{"metadata":{"name":""}}', "metadata.name"),
        (b'{"metadata":{"name":7}}', "metadata.name"),
        (b'{"metadata":{"name":"a/b"}}', "metadata.name"),
        (b'{"metadata":{"name":"a"},"metadata":null}', "metadata.name"),
        (b"<html></html>", "expected a value"),
        (b'{"metadata":{"name":"a"},"b":' + b"[" * 1000 + b"]" * 1000 + b"}", "nested too deep"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 100_000, "nested too deep"),
    ],
)
def test_an_invalid_object_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Object(raw)


@pytest.mark.parametrize("raw", [7, None, ["a"], object()])
def test_a_non_mapping_is_a_type_error(raw: Any) -> None:
    with pytest.raises(TypeError):
        Object(raw)


@pytest.mark.parametrize("value", [{1: 2}, {"a": object()}, {"a": {1, 2}}, b"bytes"])
def test_values_json_cannot_encode_are_type_errors(value: Any) -> None:
    with pytest.raises(TypeError):
        Object({"metadata": {"name": "a"}, "spec": value})


def test_a_mapping_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {"metadata": {"name": "a"}}
    loop["self"] = loop
    with pytest.raises(ValueError, match="nested too deep"):
        Object(loop)
    with pytest.raises(ValueError, match="NaN"):
        Object({"metadata": {"name": "a"}, "x": math.nan})


def test_nesting_up_to_the_limit_is_kept() -> None:
    deep: Any = 1
    for _ in range(998):
        deep = [deep]
    obj = Object({"metadata": {"name": "a"}, "deep": deep})
    for nested in (obj["deep"], obj.to_dict()["deep"]):
        levels = 0
        while not isinstance(nested, int):
            (nested,) = nested
            levels += 1
        assert levels == 998


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("-0", 0),
        ("-0.0", -0.0),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2**63),
        ("-9223372036854775809", -(2**63) - 1),
        pytest.param("1" + "0" * 10_000, 10**10_000, id="10001 digits"),
        pytest.param("-" + "12" * 5_000, -(12 * (100**5_000 - 1) // 99), id="10000 digits"),
        ("1.5e3", 1500.0),
        ("0.1", 0.1),
    ],
)
def test_numbers_are_exact_and_infinite_beyond_the_range_of_doubles(text: str, value: Any) -> None:
    obj = Object(f'{{"metadata":{{"name":"a"}},"n":{text}}}')
    assert obj["n"] == value
    assert type(obj["n"]) is type(value)
    again = Object(obj.to_dict())
    assert again["n"] == value


def test_lone_surrogates_become_replacement_characters() -> None:
    obj = Object(rb'{"metadata":{"name":"a"},"s":"\ud83d\ude00 \ud800 \udc00x \ud800\u0041","\ud800":1}')
    assert obj["s"] == "\U0001f600 \ufffd \ufffdx \ufffdA"
    assert obj["\ufffd"] == 1
    from_python = Object({"metadata": {"name": "a"}, "s": "x\ud800y"})
    assert from_python["s"] == "x\ufffdy"


def test_the_last_of_duplicate_keys_wins_everywhere() -> None:
    raw = (
        b'{"kind":"A","kind":"B","spec":{"x":1,"x":2},"spec":{"y":1,"y":2},"metadata":{"name":"old","uid":"1"},'
        b'"metadata":{"name":"a","name":"b","labels":{"l":"1"},"labels":{"l":"2","l":"3"}}}'
    )
    obj = Object(raw)
    assert (obj.kind, obj.name, obj.uid) == ("B", "b", "")
    assert obj.labels == {"l": "3"}
    assert obj["spec"] == {"y": 2}
    assert obj["spec"]["y"] == 2
    assert len(obj["spec"]) == 1
    assert obj.to_dict() == json.loads(raw)
    assert len(obj) == 3


def test_escaped_keys_are_decoded() -> None:
    obj = Object(rb'{"\u006detadata":{"n\u0061me":"a\u0062","managed\u0046ields":[1]},"s\u0070ec":{"\u0061":1}}')
    assert obj.name == "ab"
    assert obj["metadata"] == {"name": "ab"}
    assert obj["spec"]["a"] == 1
