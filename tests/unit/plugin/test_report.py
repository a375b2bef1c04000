"""Pages that show what a plugin reports."""

from __future__ import annotations

import json
from collections import ChainMap, UserDict
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from ctrlhost import Object, PluginLoadError
from tests.support.controllers import Bench

behaviour = pytest.mark.behaviour
LEASES = [
    {"name": "web", "holders": ["b", "c"], "since": 5},
    {"name": "<b>&", "holders": [], "since": {"seconds": 2}},
]


class Row(msgspec.Struct):
    name: str
    count: int


def client(bench: Bench, report: Any, **options: Any) -> TestClient:
    plugin = bench.plugin()
    plugin.add_report("/leases", report, **options)
    return TestClient(plugin.pages["/leases"])


@behaviour("findings/FP14")
def test_rows_are_an_escaped_and_sorted_table_without_a_script(bench: Bench) -> None:
    answer = client(bench, lambda: LEASES, title="Leases & holders").get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>Leases &amp; holders</title>" in answer.text
    head, first, second = answer.text.partition("<table>")[2].split("<tr>")[1:]
    assert head == "<th>name<th>holders<th>since</tr>"
    assert first == "<td>&lt;b&gt;&amp;<td>none<td>seconds: 2</tr>"
    assert second.startswith("<td>web<td>b<br>c<td>5</tr>")
    assert "<script" not in answer.text


@behaviour("findings/FP14")
@pytest.mark.parametrize(
    ("query", "accept", "is_json"),
    [
        ("?format=json", "text/html", True),
        ("", "application/json", True),
        ("", "text/html,application/json;q=0.9", False),
        ("", "*/*", False),
    ],
)
def test_json_is_sent_to_who_asks_for_it(bench: Bench, query: str, accept: str, is_json: bool) -> None:
    answer = client(bench, lambda: iter(LEASES)).get(f"/{query}", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith("application/json" if is_json else "text/html")
    if is_json:
        assert answer.json() == LEASES


def test_structs_are_rows_and_a_mapping_is_one_record(bench: Bench) -> None:
    rows = client(bench, lambda: [Row("b", 1), Row("a", 2)])
    assert json.loads(rows.get("/?format=json").text) == [{"name": "b", "count": 1}, {"name": "a", "count": 2}]
    assert "<td>a<td>2</tr><tr><td>b<td>1</tr>" in rows.get("/").text
    assert "<tr><th>mode<td>static</tr>" in client(bench, lambda: {"mode": "static", "left": 3}).get("/").text
    assert "nothing to report" in client(bench, list).get("/").text


@behaviour("findings/FP14")
@pytest.mark.parametrize("kind", [MappingProxyType, ChainMap, UserDict])
def test_any_mapping_is_a_record_a_row_or_a_value(bench: Bench, kind: Any) -> None:
    inner = {"b": 1}
    expected = "<tr><th>a<td>b: 1</tr>"
    record = client(bench, lambda: kind({"a": kind(inner)}))
    assert record.get("/?format=json").json() == {"a": inner}
    assert expected in record.get("/").text
    rows = client(bench, lambda: [kind({"a": kind(inner)})])
    assert rows.get("/?format=json").json() == [{"a": inner}]
    assert "<tr><th>a</tr><tr><td>b: 1</tr>" in rows.get("/").text


def test_parts_of_cached_objects_are_shown_whole(bench: Bench) -> None:
    data = {"list": [{"key": f"value-{number}"} for number in range(50)]}
    obj = Object({"metadata": {"name": "a"}, "data": data})
    page = client(bench, lambda: [{"data": obj["data"], "list": obj["data"]["list"], "whole": obj}])
    whole = {"metadata": {"name": "a"}, "data": data}
    assert page.get("/?format=json").json() == [{"data": data, "list": data["list"], "whole": whole}]
    assert page.get("/").text.count("key: value-49") == 3


def test_a_value_that_json_does_not_know_is_shown_as_text(bench: Bench) -> None:
    assert client(bench, lambda: {"left": None, "of": 1 + 2j}).get("/?format=json").json() == {
        "left": None,
        "of": "(1+2j)",
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_report_is_only_read(bench: Bench, method: str) -> None:
    assert client(bench, list).request(method, "/").status_code == 405


@behaviour("findings/FP14")
@pytest.mark.parametrize("leader_only", [True, False])
def test_a_replica_that_does_not_lead_names_the_leader(bench: Bench, leader_only: bool) -> None:
    pages = client(bench, lambda: LEASES, leader_only=leader_only)
    assert pages.get("/").status_code == 200
    bench.tenure.end()
    answer = pages.get("/?format=json")
    assert answer.status_code == (503 if leader_only else 200)
    if leader_only:
        assert answer.text == "standing by; the leader is not known\n"


def test_the_path_of_a_report_begins_with_a_slash(bench: Bench) -> None:
    with pytest.raises(PluginLoadError, match="must begin with a slash"):
        bench.plugin().add_report("leases", list)
