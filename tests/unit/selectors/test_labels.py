from __future__ import annotations

import pytest

from ctrlhost.selectors import labels as selectors


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a=b", {}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": "x"}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in (b, c)", {"a": "d"}, False),
        ("a in (b,c)", {}, False),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c)", {"a": "b"}, False),
        ("a in ()", {"a": ""}, True),
        ("a=", {"a": ""}, True),
        ("a=b,c!=d, e in (f) ,!g", {"a": "b", "e": "f"}, True),
        ("a=b,c!=d", {"a": "b", "c": "d"}, False),
        ("app.kubernetes.io/name=x", {"app.kubernetes.io/name": "x"}, True),
        ("in in (in)", {"in": "in"}, True),
        ("notin", {"notin": "1"}, True),
        ("a." * 100 + "io/" + "N" * 63 + "=" + "v" * 63, {"a." * 100 + "io/" + "N" * 63: "v" * 63}, True),
    ],
)
def test_a_selector_matches_as_in_kubectl(selector, labels, expected):
    assert selectors.matches(selectors.parse(selector), labels) is expected


@pytest.mark.parametrize(
    "selector",
    [
        *("a=b c=d", "a in b", "a in (b", "=b", "a=b,", ",", "a=b,,c", "a ~ b", "-a", "a in (b c)"),
        *("a/b/c", "A.io/b", "/a", "a/", "a" * 64, "a=" + "b" * 64, f"a in (b,{'c' * 64})"),
    ],
)
def test_an_invalid_selector_is_refused(selector):
    with pytest.raises(ValueError, match="label selector"):
        selectors.parse(selector)
