"""Formats of texts in custom objects: the sandbox gives the verdict of a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandbox.tests.conftest import Crd
from tests.support.compared import Pair

UUID = "123e4567-e89b-12d3-a456-426614174000"
NAMES = ["a", "a-b", "-a", "a-", "A", "a.b", "a..b", "", "a" * 63, "a" * 64, ".a"]

#: Values by format. Some fit, some do not, and some only just.
VALUES: dict[str, list[str]] = {
    "duration": [
        "1s", "-1.5h", ".5s", "1.s", "0", "+0", "", "1", "1d", "2 weeks", "3 fortnights", "x 3 sec y", "1h30", "1µs",
        "1μs", "1 Hour", "99999999999999999999s", "9999999999h", "1ms2", "s", "-", "1m 2x", "1 minute", "1 mo",
    ],
    "date": [
        "2026-01-02", "2026-02-29", "2024-02-29", "0000-02-29", "2026-1-2", "2026-13-01", "2026-01-02T",
        "", "x",
    ],
    "date-time": [
        "2026-01-02T03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02T03:04:05.5+01:00", "2026-01-02T24:04:05Z",
        "2026-01-02T03:04:60Z", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05ZT",
        "2026-02-30T03:04:05Z",
        "2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05+99:99", "",
    ],
    "ipv4": [
        "1.2.3.4", "01.02.03.004", "1.2.3", "256.1.1.1", "::ffff:1.2.3.4", "::1", "1.2.3.4 ",
        "1.2.3.0000004", "",
    ],
    "ipv6": [
        "::1", "::", "1::2::3", "fe80::1%eth0", "::ffff:1.2.3.4", "::ffff:01.2.3.4", "1.2.3.4", "00001::",
        "g::", "",
    ],
    "cidr": [
        "10.0.0.0/8", "10.0.0.1/8", "010.0.0.0/08", "10.0.0.0", "10.0.0.0/33", "::/0", "fe80::/129",
        "00001::/64", "10.0.0.0/255.0.0.0", "/8", "",
    ],
    "uuid": [
        UUID, UUID.upper(), UUID.replace("-", ""), UUID[:-1], f"{{{UUID}}}", f"urn:uuid:{UUID}",
        f"{UUID}\n", "",
    ],
    "uuid3": [UUID, UUID.replace("12d3", "32d3"), UUID.replace("12d3", "3XYZ")],
    "uuid4": [UUID, UUID.replace("12d3", "42d3"), UUID.replace("12d3-a", "42d3-c")],
    "uuid5": [UUID, UUID.replace("12d3", "52d3"), UUID.replace("12d3-a", "52d3-7")],
    "email": [
        "a@b", "a@b.c", "A <a@b>", "<a@b>", '"A B" <a@b>', '"a b"@c', "a@[1.2.3.4]", "a", "@b", "a@",
        "a@b@c", "a..b@c",
        ".a@b", "a@b.", "a b@c", " a@b ", "a@b (comment)", "(comment) a@b", "é@ü", "a@b,", "A a@b", "a@b\n",
        "a.b+c@d", "",
    ],
    "hostname": [
        "a", "a.bc", "a.b", "-a", "a-", "a_b", "1.2.3.4", "a.bc.", "x" * 63, "x" * 64,
        ".".join(["x" * 60] * 4 + ["com"]), "é.fr", "",
    ],
    "uri": [
        "http://a", "/a", "a", "mailto:a@b", "//a", "http://", "http://a b", "http://a/b c", "http://a/%zz",
        "/a%2", "*",
        "http://[::1]:80", "http://[::1", "http://a:x", "http://a:", ":a", "1a:b", "http://u:p@a",
        "http://a/\t", "a:b", "x:%", "",
        "http://a?%zz", "http://[fe80::1%25en0]/", "http://a%20b", "http://%41", "http:/a", "urn:x", "?a",
        "#", "http://a:1:2",
    ],
    "k8s-short-name": NAMES,
    "k8s-long-name": [*NAMES, "a.b-c.d", ".".join(["a" * 63] * 4)[:253], "a" * 254],
    "isbn": ["0321751043", "978-0321751041", "0321751044", "080442957X", "9780321751042", "x", ""],
    "isbn10": ["0321751043", "0 321 75104 3", "978-0321751041"],
    "isbn13": ["978-0321751041", "978 0321751041", "0321751043"],
    "ssn": ["111-22-3333", "111 22 3333", "111223333", "111-22-333", "1a1-22-3333", ""],
    "creditcard": ["4111111111111111", "4111-1111-1111-1111", "4111111111111112", "378282246310005", "x", ""],
    "hexcolor": ["#fff", "fff", "#ffff", "#FFFFFF", "#ggg", ""],
    "rgbcolor": ["rgb(1,2,3)", "rgb( 255 , 0 , 10 )", "rgb(256,0,0)", "rgb(01,0,0)", "rgba(1,2,3,4)", ""],
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901", "507f1f77bcf86cd79943901g", ""],
    "mac": [
        "01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "01:23:45:67:89", "01:23-45:67:89:ab",
        "01:23:45:67:89:ab:cd:ef",
        "0123.4567.89ab.cdef", "0123456789ab", "0123456789abcdef", "0123456789", "0123456789" * 4,
        "1:23:45:67:89:ab", "",
    ],
    "byte": ["YQ==", "YWI=", "YWJj", "YQ", "YQ=", "a b=", "_-==", "YQ==\n", ""],
    "password": ["", "x"],
    "unknown": ["", "x"],
    "int32": ["x"],
}  # fmt: skip


@pytest.mark.behaviour("findings3/NB6")
def test_formats_of_texts(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    fields = {name.replace("-", ""): {"type": "string", "format": name} for name in VALUES}
    crd = pair_crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
    verdicts: dict[str, set[int]] = {}
    for name, values in VALUES.items():
        for value in values:
            spec = {name.replace("-", ""): value}
            code, _ = pair.ask("POST", crd.path(pair.namespace), crd.obj(**spec), dryRun="All")
            verdicts.setdefault(name, set()).add(code)
    assert {name for name, codes in verdicts.items() if 422 not in codes} == {"password", "unknown", "int32"}


@pytest.mark.behaviour("findings3/NB6")
def test_formats_of_other_values(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    schemas = {
        "object": {"type": "object", "format": "date", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "format": "date", "items": {"type": "string"}},
        "flag": {"type": "boolean", "format": "date"},
        "integer": {"type": "integer", "format": "uint32"},
        "small": {"type": "integer", "format": "int32"},
        "number": {"type": "number", "format": "float32"},
        "text": {"type": "string", "format": "int64"},
        "any": {"x-kubernetes-preserve-unknown-fields": True, "format": "date"},
        "mixed": {"x-kubernetes-int-or-string": True, "format": "date"},
    }
    crd = pair_crd(schema={"type": "object", "properties": {"spec": {"type": "object", "properties": schemas}}})
    for name in schemas:
        for value in ("x", 1, -1, 2**33, 1.5, 1e300, True, {"a": "x"}, ["x"], "2026-01-02"):
            pair.ask("POST", crd.path(pair.namespace), crd.obj(**{name: value}), dryRun="All")
