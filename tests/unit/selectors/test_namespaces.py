"""Namespaces selected by names, globs and label selectors."""

from __future__ import annotations

import pytest

import ctrlhost
from ctrlhost.cli.options import names
from ctrlhost.config.load import Configuration
from ctrlhost.errors import ConfigError
from ctrlhost.selectors.namespaces import NamespaceSelector, narrowed, read

LABELS = {
    "dev-a": {"env": "dev", "team": "a"},
    "dev-b": {"env": "dev"},
    "prod-a": {"env": "prod", "team": "a"},
    "default": {},
}


def chosen(entries: list[str] | None, limit: list[str] | None = None) -> list[str]:
    result = narrowed(entries, limit)
    if result is None:
        return list(LABELS)
    if isinstance(result, tuple):
        return [name for name in LABELS if name in result]
    return [name for name, labels in LABELS.items() if result.selects(name, labels)]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (None, ["dev-a", "dev-b", "prod-a", "default"]),
        ([], []),
        (["dev-a", "nowhere"], ["dev-a"]),
        (["dev-*"], ["dev-a", "dev-b"]),
        (["*-a", "default"], ["dev-a", "prod-a", "default"]),
        (["dev-[!a]", "prod-?"], ["dev-b", "prod-a"]),
        (["label:env=dev"], ["dev-a", "dev-b"]),
        (["label:env in (dev, prod),team"], ["dev-a", "prod-a"]),
        (["label:!env", "label:env=prod"], ["prod-a", "default"]),
    ],
)
def test_names_globs_and_selectors_are_combined(entries: list[str] | None, expected: list[str]) -> None:
    assert chosen(entries) == expected


@pytest.mark.parametrize(
    ("wanted", "limit", "expected"),
    [
        (["dev-a", "prod-a"], ["dev-*"], ["dev-a"]),
        (["dev-*"], ["dev-b", "default"], ["dev-b"]),
        (["label:team=a"], ["label:env=dev"], ["dev-a"]),
        (["default"], ["label:env=dev"], []),
        (None, ["label:env=prod"], ["prod-a"]),
        (["*"], ["*"], ["dev-a", "dev-b", "prod-a", "default"]),
    ],
)
def test_a_source_is_narrowed_to_the_namespaces_the_operator_allows(wanted, limit, expected: list[str]) -> None:
    assert chosen(wanted, limit) == expected


def test_names_stay_names_if_no_cluster_query_is_needed() -> None:
    assert read(["b", "a", "b"]) == ("b", "a")
    assert narrowed(["dev-a"], ["dev-*"]) == ("dev-a",)
    assert narrowed(["dev-*"], ["dev-*"]) == NamespaceSelector(globs=("dev-*",))
    assert str(narrowed(["dev-*", "x"], ["label:env=dev"])) == "x,dev-* within label:env=dev"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("Dev", "invalid namespace `Dev`"),
        ("a/b", "invalid namespace"),
        ("env=dev", "a label selector is written `label:env=dev`"),
        ("label:", "selects every namespace"),
        ("label:a in (b", "is invalid from"),
        ("", "invalid namespace"),
    ],
)
def test_an_entry_that_matches_nothing_is_refused_where_it_is_given(entry: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ctrlhost.For("v1", "Pod", namespaces=[entry])
    configuration = Configuration.gather(flags={"namespaces": (entry,)})
    with pytest.raises(ConfigError, match=message):
        _ = configuration.host


def test_a_label_selector_is_one_entry_on_the_command_line() -> None:
    assert names(("a,b", "label:env in (dev, test)", "c-*,a")) == ("a", "b", "label:env in (dev, test)", "c-*")
