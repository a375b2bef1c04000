"""Validation rules of CRDs with accepted and refused values, equal on every server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

INT: dict[str, Any] = {"type": "integer"}
TEXT: dict[str, Any] = {"type": "string", "maxLength": 60}
INT_OR_STRING: dict[str, Any] = {"x-kubernetes-int-or-string": True, "maxLength": 10}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def many(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": 6, **more}


def mapped(values: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, "maxProperties": 5}


def text(format_: str) -> dict[str, Any]:
    return {"type": "string", "format": format_, "maxLength": 60}


@dataclass(frozen=True)
class Case:
    """A rule of a schema; `refused` has values with a part of their error message."""

    schema: dict[str, Any]
    rule: str
    taken: list[Any] = field(default_factory=list)
    refused: list[tuple[Any, str]] = field(default_factory=list)


AB = obj(a=INT, b=INT)
TEXTS = many(TEXT)
INTS = many(INT)
ODD = {"namespace": "n", "x.y": "d", "a-b": "a", "c/d": "s", "e__f": "u"}

CASES: dict[str, Case] = {
    "absent fields": Case(AB, "self.a <= 10", [{"a": 5}], [({}, "no such key: a evaluating rule: self.a <= 10")]),
    "has": Case(AB, "has(self.a) == has(self.b)", [{}, {"a": 1, "b": 1}], [({"a": 1}, "failed rule: has(self.a)")]),
    "one side decides": Case(AB, "self.a > 1 || self.b > 1", [{"a": 2}, {"b": 2}], [({"a": 1}, "no such key: b")]),
    "division by zero": Case(AB, "self.a / self.b == 1", [{"a": 3, "b": 2}], [({"a": 1, "b": 0}, "division by zero")]),
    "overflow": Case(AB, "self.a * self.b < 9", [{"a": 2, "b": 2}], [({"a": 2**63 - 1, "b": 2}, "integer overflow")]),
    "types": Case(
        AB,
        "type(self.a) == int && type([1]) == list && type({}) == map && type(null) == null_type"
        " && type(timestamp('2021-01-01T00:00:00Z')) == google.protobuf.Timestamp",
        [{"a": 1}],
    ),
    "numbers": Case(AB, "self.a in [1, 2] && 1 < 2.5 && 1u < 2 && -self.a == -1 && 7 % 4 == 3", [{"a": 1}]),
    "conversions": Case(
        {"type": "number"},
        "string(self) == '1.5' && int(self) == 1 && double('2.5') == 2.5 && uint(3) == 3u"
        " && string(1000000.0) == '1e+06' && string(duration('90m')) == '5400s' && int('12') == 12",
        [1.5],
        [(2.5, "failed rule")],
    ),
    "a scalar": Case(TEXT, "self != 'x'", ["y"], [("x", "Invalid value: \"x\": failed rule: self != 'x'")]),
    "escapes": Case(TEXT, r"self == 'a\tb' && r'\d'.size() == 2 && '\u00fc' == 'ü' && '''x''' == 'x'", ["a\tb"]),
    "int or string": Case(
        INT_OR_STRING,
        "type(self) == int ? self < 5 : self.endsWith('%')",
        [1, "x%"],
        [(7, "Invalid value: 7"), ("x", 'Invalid value: "x"')],
    ),
    "types at run time": Case(INT_OR_STRING, "self < 5", [1], [("x", "'no such overload': call arguments did not")]),
    "field names": Case(
        obj(**dict.fromkeys(ODD, TEXT)),
        "self.__namespace__ == 'n' && self.x__dot__y == 'd' && self.a__dash__b == 'a' && self.c__slash__d == 's'"
        " && self.e__underscores__f == 'u'",
        [ODD],
        [({**ODD, "namespace": "m"}, "failed rule")],
    ),
    "macros": Case(
        TEXTS,
        "self.all(x, x.startsWith('a')) && self.exists(x, x.endsWith('z')) && self.exists_one(x, x == 'az')"
        " && self.filter(x, x == 'az').size() == 1 && self.map(x, x + 'q')[0] == 'azq'",
        [["az", "ab"]],
        [(["b"], "failed rule"), ([], "failed rule")],
    ),
    "macros of two": Case(
        INTS,
        "self.all(i, v, v == i + 1) && self.exists(i, v, i == 0 && v == 1)"
        " && self.transformList(i, v, i + v) == [1, 3] && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        [[1, 2]],
        [([2, 1], "failed rule")],
    ),
    "texts": Case(
        TEXT,
        "self.lowerAscii() == 'abc' && self.upperAscii() == 'ABC' && ' x '.trim() == 'x' && 'ü'.size() == 1"
        " && 'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'hello'.indexOf('l', 3) == 3"
        " && 'hello'.substring(1, 3) == 'el' && 'hello'.charAt(1) == 'e' && 'abc'.indexOf('a', 9) == -1",
        ["AbC"],
        [("x", "failed rule")],
    ),
    "pieces": Case(TEXT, "self.split(',').size() == 2 && self.split(',')[1] == 'b'", ["a,b"], [("a", "failed rule")]),
    "joining": Case(TEXTS, "self.join('-').size() == 3", [["a", "b"]], [(["a"], "failed rule")]),
    "replacing": Case(TEXT, "'abab'.replace('a', 'c', 1) == 'cbab' && self.replace('a', 'c') == 'cb'", ["ab"]),
    "places": Case(TEXT, "'abc'.substring(5) == self", [], [("x", "index out of range: 5")]),
    "patterns": Case(
        TEXT,
        "self.matches('^[a-z]+$') && self.find('[0-9]+') == '' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        ["abc"],
        [("a1", "failed rule")],
    ),
    "made patterns": Case(TEXT, "'abc'.matches(self)", ["a.c"], [("(", "missing closing )"), ("x", "failed rule")]),
    "formatting": Case(TEXT, "'%s-%d %.2f %x'.format([self, 3, 1.0, 255]) == 'a-3 1.00 ff'", ["a"]),
    "lists": Case(
        INTS,
        "self.isSorted() && self.sum() == 6 && self.min() == 1 && self.max() == 3 && self.indexOf(2) == 1"
        " && self.slice(0, 2) == [1, 2] && [[1], [2]].flatten() == [1, 2] && [1, 1].distinct() == [1]"
        " && [2, 1].sort() == [1, 2] && lists.range(2) == [0, 1]",
        [[1, 2, 3]],
        [([3, 2, 1], "failed rule")],
    ),
    "an empty list": Case(INTS, "self.min() == 1", [[1]], [([], "min called on empty list")]),
    "out of bounds": Case(INTS, "self[2] == 1", [[0, 0, 1]], [([1], "index out of bounds: 2")]),
    "optionals": Case(
        obj(l=INTS), "self.?l[?5].orValue(3) == 3 && self.?l.optMap(v, v.size()).value() == 1", [{"l": [1]}]
    ),
    "maps": Case(
        mapped(TEXT),
        "self['x'] == 'y' && 'x' in self && self.all(k, k.size() == 1) && self.size() == 1 && self.x == 'y'",
        [{"x": "y"}],
        [({"xx": "y"}, "failed rule")],
    ),
    "sets": Case(
        many(TEXT, **{"x-kubernetes-list-type": "set"}),
        "self == ['a', 'b'] && self + ['a', 'c'] == ['c', 'b', 'a'] && sets.contains(self, ['a'])",
        [["b", "a"]],
        [(["a"], "failed rule")],
    ),
    "URLs": Case(
        TEXT,
        "isURL(self) && url(self).getScheme() == 'https' && url(self).getHost() == 'x.org:80'"
        " && url(self).getEscapedPath() == '/a%20b' && url(self).getQuery()['q'] == ['1', '2']",
        ["https://x.org:80/a%20b?q=1&q=2"],
        [("../x", "failed rule")],
    ),
    "no URLs": Case(
        TEXT,
        "isURL(self)",
        ["/x", "http://", "http:", "mailto:a@b", "http://[::1]:80/", "//x/y", "http://x/ y", "http://x/#f"],
        [
            (bad, "failed")
            for bad in ("x", "http://a b/", "http://[::1", "http://a:b/", "http://a/%zz", "", ":x", "1h:x")
        ],
    ),
    "quantities": Case(
        TEXT,
        "isQuantity(self) && quantity(self).compareTo(quantity('1Gi')) == 0 && sign(quantity('-1')) == -1"
        " && quantity('1k').add(quantity('1')).asInteger() == 1001 && quantity('200M') == quantity('0.2G')",
        ["1Gi", "1024Mi"],
        [("1x", "failed rule"), ("1", "failed rule")],
    ),
    "durations": Case(text("duration"), "self < duration('1h')", ["30m", "59m59s"], [("1d", "failed rule")]),
    "times": Case(
        text("date-time"),
        "self > timestamp('2020-01-01T00:00:00Z') && self.getFullYear() == 2021 && self.getMonth() == 0"
        " && self.getDayOfWeek() == 5 && self.getHours() == 12",
        ["2021-01-01T12:00:00Z", "2021-01-01T14:00:00+02:00"],
        [("2019-01-01T00:00:00Z", "failed rule")],
    ),
    "dates": Case(
        text("date"), "self == timestamp('2021-01-02T00:00:00Z')", ["2021-01-02"], [("2021-01-03", "failed")]
    ),
    "bytes": Case(text("byte"), "self == b'hello'", ["aGVsbG8="], [("aGVs", "failed rule")]),
    "addresses": Case(
        TEXT,
        "isIP(self) && ip(self).family() == 4 && cidr('10.0.0.0/8').containsIP(self)"
        " && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        ["10.1.2.3"],
        [("11.0.0.1", "failed rule"), ("::1", "failed rule"), ("01.2.3.4", "failed rule")],
    ),
    "versions": Case(TEXT, "isSemver(self) && semver(self).major() == 1", ["1.0.0-rc.1"], [("1.0", "failed rule")]),
    "formats": Case(TEXT, "!format.dns1123Label().validate(self).hasValue()", ["abc"], [("A_", "failed rule")]),
    "an absent problem": Case(
        TEXT,
        "size(self) == 0 || format.dns1123Label().validate(self) == null",
        [""],
        [("A_", "failed rule"), ("abc", "failed rule")],
    ),
    "null of opaque types": Case(
        TEXT,
        "quantity('1') != null && null != url('http://a') && ip('::1') != null && cidr('::/8') != null"
        " && semver('1.0.0') != null && format.uri() != null && optional.none() != null && !(duration('1s') in [null])",
        ["a"],
    ),
    "nothing there": Case(obj(a={**TEXT, "nullable": True}), "has(self.a)", [{"a": "x"}], [({"a": None}, "failed")]),
    "embedded objects": Case(
        {**obj(b=TEXT), "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        "self.metadata.name == 'x' && self.kind == 'K'",
        [{"apiVersion": "v1", "kind": "K", "metadata": {"name": "x"}}],
        [({"apiVersion": "v1", "kind": "K", "metadata": {"name": "y"}}, "failed rule")],
    ),
}
"""The cases by name."""

REFUSED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    (obj(a=INT), {"rule": "self.b > 1"}, "rule", "1:5: undefined field 'b'\n | self.b > 1\n | ....^"),
    (obj(a=INT), {"rule": "self.a >"}, "rule", "1:9: Syntax error: mismatched input '<EOF>' expecting {'['"),
    (obj(a=INT), {"rule": "self.a + 1"}, "rule", "cel expression must evaluate to a bool"),
    (obj(a=INT), {"rule": "foo(self.a)"}, "rule", "1:4: undeclared reference to 'foo' (in container '')"),
    (obj(a=INT), {"rule": "x == 1"}, "rule", "1:1: undeclared reference to 'x' (in container '')"),
    (obj(a=INT), {"rule": "self.a.trim() == 'x'"}, "rule", "no matching overload for 'trim' applied to 'int.()'"),
    (obj(a=INT), {"rule": "self.a == 'x'"}, "rule", "no matching overload for '_==_' applied to '(int, string)'"),
    (obj(a=INT), {"rule": "self.a == 1.0"}, "rule", "no matching overload for '_==_' applied to '(int, double)'"),
    (obj(a=INT), {"rule": "[1, 'a'].size() > 1"}, "rule", "expected type 'int' but found 'string'"),
    (obj(a=INT), {"rule": "'a'.matches('(')"}, "rule", "1:13: invalid matches argument"),
    (obj(a=INT), {"rule": "duration('x') > duration('1s')"}, "rule", "invalid duration argument"),
    (obj(a=INT), {"rule": "has(self)"}, "rule", "1:5: invalid argument to has() macro"),
    (obj(a=INT), {"rule": "  "}, "rule", "rule is not specified"),
    (obj(a=INT), {"rule": "self.a > 1", "message": "a\nb"}, "message", "must not contain line breaks"),
    (obj(a=INT), {"rule": "self.a\n> 1"}, "message", "message must be specified if rule contains line breaks"),
    (obj(a=INT), {"rule": "self.a > 1", "reason": "Foo"}, "reason", 'Unsupported value: "Foo"'),
    (obj(a=INT), {"rule": "self.a > 1", "fieldPath": ".b"}, "fieldPath", "must be a valid path"),
    (obj(a=INT), {"rule": "self.a > 1", "optionalOldSelf": True}, "optionalOldSelf", "may not be set if oldSelf"),
    (obj(a=INT), {"rule": "self.a > 1", "messageExpression": "self.a"}, "messageExpression", "evaluate to a string"),
    (
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"rule": "self.x == 1"},
        "rule",
        "undefined field 'x'",
    ),
]
"""Refused rules: a schema, the rule, the field of the error and a part of its message."""
