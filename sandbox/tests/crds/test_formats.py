"""Formats of strings and numbers in the schema of a CRD: verdicts and warnings of a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandbox.tests.conftest import Crd, crd_body
from tests.support.http_client import Answer, Api

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: What is accepted and what is refused, by format.
VALUES: dict[str, tuple[list[str], list[str]]] = {
    "duration": (
        [
            "1s",
            "1.5s",
            "-1s",
            "+1s",
            "1h30m",
            "1 h",
            "2 days",
            "3 weeks",
            "1d",
            "1w",
            "0",
            "1ms",
            "1us",
            "1\u00b5s",
            "1\u03bcs",
            "1ns",
            "5 minutes",
            "1 hour 2 min",
            "1h 30m",
            "1sec",
            "2 secs",
            "1 millisecond",
            "P1D",
            "1.5.5s",
            ".5s",
            "1.s",
            "1s garbage",
            "1hours",
            "1 day",
            "1 week",
            "-2 days",
        ],
        ["", "1", "1x", "s", "1hrs", "∞"],
    ),
    "cidr": (
        ["10.0.0.0/8", "10.0.0.1/8", "::/0", "2001:db8::/32", "010.0.0.0/8", "10.0.0.0/08", "::ffff:1.2.3.4/100"],
        [
            "10.0.0.0/33",
            "10.0.0.0",
            "2001:db8::/129",
            "10.0.0/8",
            "fe80::1%eth0/64",
            "",
            " 10.0.0.0/8",
            "10.0.0.0/255.0.0.0",
        ],
    ),
    "ipv4": (
        ["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4", "0.0.0.0", "255.255.255.255"],
        ["1.2.3", "1.2.3.256", "::1", "1.2.3.4 ", "", "1.2.3.4/8"],
    ),
    "ipv6": (
        ["::1", "::", "2001:db8::1", "::ffff:1.2.3.4", "::1.2.3.4", "0:0:0:0:0:0:0:1"],
        ["1.2.3.4", "fe80::1%eth0", "1::2::3", "", "12345::", "[::1]"],
    ),
    "uuid": (
        [
            "550e8400-e29b-41d4-a716-446655440000",
            "550E8400-E29B-41D4-A716-446655440000",
            "550e8400e29b41d4a716446655440000",
            "550e8400-e29b-41d4a716-446655440000",
            "550e8400-e29b41d4-a716446655440000",
        ],
        [
            "{550e8400-e29b-41d4-a716-446655440000}",
            "urn:uuid:550e8400-e29b-41d4-a716-446655440000",
            "550e8400-e29b-41d4-a716-44665544000",
            "",
            "g50e8400-e29b-41d4-a716-446655440000",
        ],
    ),
    "uuid3": (
        [
            "6fa459ea-ee8a-3ca4-894e-db77e160355e",
            "6fa459eaee8a3ca4894edb77e160355e",
            "6FA459EA-EE8A-3CA4-894E-DB77E160355E",
        ],
        ["6fa459ea-ee8a-4ca4-894e-db77e160355e", ""],
    ),
    "uuid4": (
        ["550e8400-e29b-41d4-a716-446655440000", "550e8400e29b41d4a716446655440000"],
        ["550e8400-e29b-31d4-a716-446655440000", "550e8400-e29b-41d4-c716-446655440000", ""],
    ),
    "uuid5": (
        ["886313e1-3b8a-5372-9b90-0c9aee199e5d", "886313e13b8a53729b900c9aee199e5d"],
        ["886313e1-3b8a-4372-9b90-0c9aee199e5d", "886313e1-3b8a-5372-cb90-0c9aee199e5d", ""],
    ),
    "email": (
        ["a@b", "a@b.de", "A <a@b.de>", '"a b"@c.de', "a@[1.2.3.4]", "ü@b.de", "a@b ", "<a@b.de>"],
        ["a b@c.de", "a@", "@b", "a@b@c", "", "a@b,c@d", "a.@b.de", "a..b@c.de", "a@b..de"],
    ),
    "date": (
        ["2026-01-02", "0000-01-01", "9999-12-31"],
        ["2026-13-01", "2026-02-30", "2026-1-2", "26-01-02", "2026-01-02T00:00:00Z", "", "2026-01-02 ", "20260102"],
    ),
    "k8s-short-name": (["a", "a-b", "1a", "a" * 63], ["-a", "a-", "A", "a.b", "", "a" * 64, "a_b"]),
    "k8s-long-name": (
        ["a", "a.b", "a-b.c", "a" * 63 + ".b", "a" * 64 + ".b", "a" * 253, ".".join(["a" * 49] * 5) + "aaa"],
        ["A.b", "a..b", ".a", "a.", "", ".".join(["a" * 49] * 5) + "aaaaa"],
    ),
    "isbn": (
        ["0-306-40615-2", "0306406152", "9780306406157", "978-0-306-40615-7", "080442957X"],
        ["0306406153", "", "080442957x"],
    ),
    "isbn10": (["0306406152", "0-306-40615-2", "0 306 40615 2"], ["9780306406157", "0306406153"]),
    "isbn13": (["9780306406157", "978-0-306-40615-7", "978 0 306 40615 7"], ["0306406152", "9780306406158"]),
    "ssn": (
        ["111-11-1111", "000-00-0000", "111 11 1111"],
        ["111111111", "111-1111-11", "", "1111-11-111", "a11-11-1111"],
    ),
    "creditcard": (
        [
            "4111111111111111",
            "4111-1111-1111-1111",
            "378282246310005",
            "6011111111111117",
            "5555555555554444",
            "4111 1111 1111 1111",
            "4222222222222",
            "30569309025904",
            "3530111333300000",
        ],
        ["4111111111111112", "", "1234567890123456", "62", "6200000000000005"],
    ),
    "hexcolor": (["#fff", "#FFFFFF", "fff", "ffffff"], ["#ffff", "#ff", "#ggg", "", "#12345", "#12345678"]),
    "rgbcolor": (
        ["rgb(0,0,0)", "rgb(255,255,255)", "rgb(0, 0, 0)", "rgb( 0 ,0,0 )"],
        ["rgb(256,0,0)", "rgb(0%,0%,0%)", "rgba(0,0,0,1)", "RGB(0,0,0)", "rgb(00,0,0)", "", "rgb(1,2)"],
    ),
    "bsonobjectid": (
        ["507f1f77bcf86cd799439011", "507F1F77BCF86CD799439011"],
        ["507f1f77bcf86cd79943901", "507f1f77bcf86cd7994390111", "g07f1f77bcf86cd799439011", ""],
    ),
    "mac": (
        [
            "00:00:5e:00:53:01",
            "00-00-5e-00-53-01",
            "0000.5e00.5301",
            "02:00:5e:10:00:00:00:01",
            "00:00:5E:00:53:01",
            "00005e005301",
        ],
        ["00:00:5e:00:53", "0000:5e00:5301", "", "00:00:5e:00:53:0g"],
    ),
    "byte": (["YQ==", "YWI=", "YR=="], ["", "YQ=", "YQ", "Y Q==", "YWJj\n", "a-_b"]),
    "password": (["", "x", "ü x"], []),
    "uri": (
        ["http://a", "/a", "a:b", "http://[::1]/", "//a/b", "mailto:a@b", "HTTP://A", "http:", "/a b", "urn:a:b", "*"],
        ["a", "", "http://a b", "http://[::1", "?x", "#x", "http://%zz", "1a:b", "http://a:port/", "é://x", "a/b"],
    ),
    "hostname": (
        ["a", "a.bc", "a-", "A.DE", "ü.de", "x" * 63, ("x" * 63 + ".") * 3 + "de", "xn--a.de"],
        ["a.b", "-a", "a_b", "a.1", "1.2.3.4", "", "a..b", "a.b.", "x" * 64, "a.b-c"],
    ),
    "datetime": (
        [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.123456789+02:00",
            "2026-01-02t03:04:05z",
            "2026-01-02T03:04:05,5Z",
        ],
        [
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "",
            "2026-01-02T03:04:05",
            "2026-01-02T24:00:00Z",
            "2026-01-02T03:04:60Z",
            "2026-01-02T03:04Z",
            "2026-01-02T03:04:05+0200",
            "2026-02-30T03:04:05Z",
        ],
    ),
}


def format_crd(each_crd: Callable[..., Crd]) -> Crd:
    """Make a kind with a list of texts for each format."""
    fields = {name: {"type": "array", "items": {"type": "string", "format": name}} for name in VALUES}
    return each_crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})


@pytest.mark.behaviour("findings3/NB6")
def test_values_of_formats_have_the_verdicts_of_a_real_server(
    each_api: Api, namespace: str, each_crd: Callable[..., Crd]
) -> None:
    crd = format_crd(each_crd)
    assert sum(len(accepted) + len(refused) for accepted, refused in VALUES.values()) >= 133
    for name, (accepted, refused) in VALUES.items():
        each_api.post(crd.path(namespace), crd.obj(**{name: accepted}), dryRun="All").expect(201)
        if not refused:
            continue
        answer = each_api.post(crd.path(namespace), crd.obj(**{name: refused}), dryRun="All")
        causes = answer.fails(422, "Invalid")["details"]["causes"]
        assert [cause["field"] for cause in causes] == [f"spec.{name}[{index}]" for index in range(len(refused))], name
        assert {cause["reason"] for cause in causes} == {"FieldValueTypeInvalid"}
        assert all(f"in body must be of type {name}: " in cause["message"] for cause in causes)


@pytest.mark.behaviour("findings3/NB6")
def test_hyphens_of_formats_do_not_count(each_api: Api, namespace: str, each_crd: Callable[..., Crd]) -> None:
    fields = {name: {"type": "string", "format": name} for name in ("uu-id", "date-time", "isbn-10", "k8sshortname")}
    crd = each_crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
    answer = each_api.post(crd.path(namespace), crd.obj(**dict.fromkeys(fields, "!")))
    causes = answer.fails(422, "Invalid")["details"]["causes"]
    assert sorted(cause["field"] for cause in causes) == [f"spec.{name}" for name in sorted(fields)]


def warned(each_api: Api, group: str, fields: dict[str, dict[str, str]]) -> list[str]:
    """Return the formats that a server warns of when a CRD with these fields is created."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    answer = each_api.post(CRDS, crd_body(group, schema=schema), dryRun="All")
    answer.expect(201)
    return formats_of(answer)


def formats_of(answer: Answer) -> list[str]:
    """Return the formats of the warnings, whose order is free."""
    parts = [warning.split('\\"') for warning in answer.warnings]
    assert {part[0] for part in parts} <= {'299 - "unrecognized format '}
    return sorted(part[1] for part in parts)


TEXTS = [*VALUES, "date-time", "uu-id"]


@pytest.mark.behaviour("findings3/NS17")
@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("string", TEXTS),
        ("integer", ["int32", "int64"]),
        ("number", ["float", "double"]),
        ("boolean", []),
        ("object", []),
    ],
)
def test_unknown_formats_warn(each_api: Api, group: str, kind: str, known: list[str]) -> None:
    others = [
        "foo",
        "UUID",
        "binary",
        "int-or-string",
        *(name for name in ("int32", "float", "uuid") if name not in known),
    ]
    fields = {f"f{index:02}": {"type": kind, "format": name} for index, name in enumerate([*others, *known])}
    assert warned(each_api, group, fields) == sorted(others)


@pytest.mark.behaviour("findings3/NS17")
def test_each_unknown_format_warns_once_when_it_is_new(each_api: Api, group: str) -> None:
    text = [{"type": "string", "format": name} for name in ("z", "b", "a", "b", "new")]
    spec = {"type": "object", "properties": dict(zip("abc", text[1:4], strict=True))}
    schema = {"type": "object", "format": "z", "properties": {"spec": spec}}
    body = crd_body(group, schema=schema)
    answer = each_api.post(CRDS, body)
    answer.expect(201)
    assert formats_of(answer) == ["a", "b", "z"]
    url = f"{CRDS}/{body['metadata']['name']}"
    assert each_api.patch(url, {"metadata": {"labels": {"a": "b"}}}).warnings == []
    spec["properties"]["d"] = text[4]
    answer = each_api.patch(url, {"spec": body["spec"]})
    answer.expect(200)
    assert formats_of(answer) == ["new"]
    each_api.delete(url).expect(200)
