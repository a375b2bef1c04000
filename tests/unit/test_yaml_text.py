from __future__ import annotations

import pytest
import yaml

from ctrlhost.yaml_text import dump_document, load_document, load_documents


def test_empty_documents_are_left_out():
    assert load_documents("---\na: 1\n---\n---\n- b\n") == [{"a": 1}, ["b"]]
    assert load_documents(b"") == []
    assert load_document("a: {b: [1, null]}") == {"a": {"b": [1, None]}}


@pytest.mark.parametrize("text", ["a: [", "a: 2026-02-30", "\x00", "&a [*b]"])
def test_what_is_not_yaml_is_a_value_error_in_one_line(text):
    with pytest.raises(ValueError, match=r"^[^\n]+\Z"):
        load_documents(text)


def test_tags_of_python_make_no_objects():
    with pytest.raises(yaml.YAMLError):
        load_document("!!python/object/apply:os.getcwd []")


def test_what_kubectl_would_read_as_something_else_is_quoted():
    shared = {"c": 1}
    text = dump_document({"b": ["y", "1e3", "0x10", "on"], "a": shared, "again": shared})
    assert text == "b:\n- 'y'\n- '1e3'\n- '0x10'\n- 'on'\na:\n  c: 1\nagain:\n  c: 1\n"
    assert dump_document({"b": 1, "a": 2}, sort_keys=True) == "a: 2\nb: 1\n"
