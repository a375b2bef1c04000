from __future__ import annotations

import re
from pathlib import Path

import pytest

import ctrlhost
from ctrlhost.yaml_text import dump_document, load_document, load_documents, load_objects


def test_empty_documents_are_left_out():
    assert load_documents("---\na: 1\n---\n---\n- b\n") == [{"a": 1}, ["b"]]
    assert load_documents(b"") == []
    assert load_document("a: {b: [1, null]}") == {"a": {"b": [1, None]}}


@pytest.mark.parametrize("text", ["a: [", "a: .inf", "a: .nan", "{~: 1}", "\x00", "&a [*b]"])
def test_what_is_not_yaml_is_a_value_error_in_one_line(text):
    with pytest.raises(ValueError, match=r"^[^\n]+\Z"):
        load_documents(text)


@pytest.mark.behaviour("findings3/NB4")
@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "- ? "])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_deep_nesting_is_an_error_and_no_end_of_the_process(opening, as_bytes):
    text = opening * 100_000
    content = text.encode() if as_bytes else text
    for load in (load_document, load_documents, load_objects):
        with pytest.raises(ValueError, match=r"line 1: it is nested deeper than 10000 levels\Z"):
            load(content)
    assert load_document("[" * 5_000 + "]" * 5_000)
    assert len(load_document("[" + "{}," * 20_000 + "]")) == 20_000


def test_a_list_that_contains_itself_is_an_error():
    with pytest.raises(ValueError, match=r"\Aa list contains itself\Z"):
        load_objects("&a {kind: List, items: [*a]}")


def test_tags_of_python_make_no_objects():
    assert load_document("!!python/object/apply:os.getcwd []") == []


def test_what_kubectl_would_read_as_something_else_is_quoted():
    shared = {"c": 1}
    text = dump_document({"b": ["y", "1e3", "0x10", "on"], "a": shared, "again": shared})
    assert text == "b:\n- 'y'\n- '1e3'\n- '0x10'\n- 'on'\na:\n  c: 1\nagain:\n  c: 1\n"
    assert dump_document({"b": 1, "a": 2}, sort_keys=True) == "a: 2\nb: 1\n"


LISTS = """
apiVersion: v1
kind: ConfigMapList
items:
- metadata: {name: a}
- {apiVersion: v1, kind: Secret, metadata: {name: b}}
---
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
- {kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}]}
---
{apiVersion: example.com/v1, kind: AllowList, metadata: {name: e}}
"""


@pytest.mark.behaviour("findings3/NB12")
def test_the_objects_of_lists_stand_in_their_place():
    objects = load_objects(LISTS)
    assert [(obj["apiVersion"], obj["kind"], obj["metadata"]["name"]) for obj in objects] == [
        ("v1", "ConfigMap", "a"),
        ("v1", "Secret", "b"),
        ("v1", "ConfigMap", "c"),
        ("v1", "ConfigMap", "d"),
        ("example.com/v1", "AllowList", "e"),
    ]


@pytest.mark.parametrize("text", ["- a", "{kind: List, items: [a]}"])
def test_an_item_that_is_no_object_is_refused(text):
    with pytest.raises(ValueError, match=r"a document is no object but (list|str)"):
        load_objects(text)


@pytest.mark.behaviour("findings3/NB4")
def test_one_module_reads_yaml():
    # So that CRD files, `crds`, `check`, `models`, `dev`, the test kit and kubeconfigs all read as kubectl does.
    package = Path(ctrlhost.__file__).parent
    reads = re.compile(r"yaml\.(safe_|full_|unsafe_)?load|SafeLoader")
    readers = {path.name for path in package.rglob("*.py") if reads.search(path.read_text(encoding="utf-8"))}
    assert readers == {"yaml_text.py"}
