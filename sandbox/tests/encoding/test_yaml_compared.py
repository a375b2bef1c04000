"""Scalars of YAML bodies: the sandbox and a real kube-apiserver take them for the same values of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml

from sandbox.tests.conftest import Crd
from tests.support.compared import Pair

YAML = "application/yaml"
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
BOOLEANS = "y Y yes Yes YES n N no No NO on On ON off Off OFF true True TRUE false False FALSE tRue yEs oN"
NUMBERS = """
    0 -0 +1 1_000 1_ 1__0 _1 014 0o14 0O14 0777 08 09 0o8 0b11 0B11 0b12 -0b11 0b1010_0111 0x1F 0X1f -0x1F 0xg
    9223372036854775807 -9223372036854775808 1e3 1E3 1e+3 1e-7 1.e3 0.1e1 12e03 685.230_15e+03 1.5 1. 1.0 1.10 -0.0 0.0
    .5 -.5 +.5 .5e3 .5_0 . + -- -_1 1.5.2 1e400 1e 1:30 80:30 190:20:30.15 1,000 0.30000000000000004 123456789.123456789
"""
TEXTS = "~ null Null NULL nil = << <<x a=b 2001-01-01 2001-01-01T00:00:00Z 2001-1-1 infinity inf nan NaN Inf"
TAGGED = ["!!str 12", "!!int '12'", "!!float 1", "!!bool yes", "!!null ~", "!foo x", "!foo [a]", "!foo {a: y}", "'y'"]
SCALARS = [*BOOLEANS.split(), *NUMBERS.split(), *TEXTS.split(), *TAGGED, '"1e3"', "[a, y]", "{y: 1, 1e3: 2, 1.5: 3}"]
INFINITE = ".inf -.Inf +.INF .nan .NaN"
REFUSED = [*INFINITE.split(), "{null: 1}", "{~: 1}", "!!null x", "!!int x", "!!int 1.5", "!!bool 1"]


@pytest.mark.behaviour("sandbox/CT-15")
def test_scalars_are_the_same_values(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd(schema=ANY)

    def body(text: str) -> bytes:
        return f"apiVersion: {crd.group}/v1\nkind: Widget\nmetadata: {{name: a}}\nspec:\n{text}\n".encode()

    texts = "\n".join(f"  v{n}: {scalar}" for n, scalar in enumerate(SCALARS))
    ours, theirs = pair.done("POST", crd.path(pair.namespace), body(texts), content_type=YAML)
    # As text, since true equals 1 in Python.
    values, wanted = (
        [json.dumps(obj["spec"][f"v{n}"], sort_keys=True) for n in range(len(SCALARS))] for obj in (ours, theirs)
    )
    assert [case for case in zip(SCALARS, values, wanted, strict=True) if case[1] != case[2]] == []
    for scalar in REFUSED:
        for api in (pair.ours, pair.theirs):
            answer = api.post(crd.path(pair.namespace), body(f"  v: {scalar}"), content_type=YAML)
            assert (scalar, answer.fails(400)["reason"]) == (scalar, "BadRequest")


@pytest.mark.behaviour("sandbox/GT-08")
def test_texts_are_quoted_so_that_every_parser_reads_them_as_texts(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd(schema=ANY)
    texts = [*SCALARS, *REFUSED, "", " a", "a ", "a: b", "a #b", "- a", "é", "a\nb", "a\t", "\u2028", "%a", "@a", "`a"]
    values = [*texts, 1, -1, 1.5, 1e-7, True, False, None]
    path = crd.path(pair.namespace)
    pair.ours.post(path, crd.obj(values=values, **{text: text for text in texts})).expect(201)
    answer = pair.ours.get(f"{path}/a", YAML)
    spec = yaml.safe_load(answer.body)["spec"]
    assert spec["values"] == values
    text = answer.body.split(b"\nspec:", 1)[1]
    head = f"apiVersion: {crd.group}/v1\nkind: Widget\nmetadata: {{name: b}}\nspec:".encode()
    for stored in pair.done("POST", path, head + text, content_type=YAML):
        assert stored["spec"] == spec
