"""Kinds as authors name them."""

from __future__ import annotations

import msgspec
import pytest

import ctrlhost
from ctrlhost.models.kinds import kind_of, names_of, plural_of


@pytest.mark.parametrize(
    ("api_version", "options", "kind"),
    [
        ("example.com/v1", {}, "example.com/v1/Thing"),
        ("example.com/v1", {"kind": "Other"}, "example.com/v1/Other"),
        ("v1/Pod", {}, "v1/Pod"),
        ("apps/v1/Deployment", {}, "apps/v1/Deployment"),
        ("apps/v1/Deployment", {"kind": "Deployment"}, "apps/v1/Deployment"),
        ("v1", {}, "v1/Thing"),
    ],
)
def test_a_struct_names_its_kind(api_version, options, kind) -> None:
    @ctrlhost.resource(api_version, **options)
    class Thing(msgspec.Struct):
        pass

    assert str(kind_of(Thing)) == kind
    assert kind_of(Thing).model is Thing


@pytest.mark.parametrize(
    ("reference", "kind"),
    [("apps/v1/Deployment", "apps/v1/Deployment"), (("v1", "Pod"), "v1/Pod"), ("v1/ConfigMap", "v1/ConfigMap")],
)
def test_a_text_or_a_pair_names_a_kind(reference, kind) -> None:
    assert str(kind_of(reference)) == kind
    assert kind_of(reference).model is None


@pytest.mark.parametrize(
    ("reference", "error", "message"),
    [
        ("Deployment", ValueError, "write an apiVersion and a kind"),
        ("v1/", ValueError, "write an apiVersion and a kind"),
        ("a/b/c/D", ValueError, "more than one slash"),
        (msgspec.Struct, TypeError, "struct Struct is not a kind; use a struct with `@ctrlhost.resource`"),
        (("v1",), TypeError, "is not a kind"),
        (5, TypeError, "5 is not a kind"),
    ],
)
def test_what_names_no_kind_is_refused(reference, error, message) -> None:
    with pytest.raises(error, match=message):
        kind_of(reference)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (["cache.example.com"], {}, ValueError, 'has no version; write it as "cache.example.com/v1"'),
        (["a/b/v1"], {}, ValueError, "more than one slash"),
        ([""], {}, ValueError, "write an apiVersion"),
        ([5], {}, TypeError, "the apiVersion is a text, got 5"),
        (["v1/Pod"], {"kind": "Service"}, ValueError, "kind is 'Service', but 'v1/Pod' names the kind 'Pod'"),
        (["example.com/v1"], {"scope": "cluster"}, ValueError, 'scope must be "Namespaced" or "Cluster"'),
        (["example.com/v1"], {"short_names": "mc"}, TypeError, r"short_names is a list: \['mc'\]"),
        (["example.com/v1"], {"categories": "all"}, TypeError, r"categories is a list: \['all'\]"),
        (["example.com/v1"], {"scale": [".spec.size"]}, ValueError, "scale has two or three paths"),
        (["example.com/v1"], {"scale": [".size", ".status.a"]}, ValueError, "scale has two or three paths"),
        (["example.com/v1"], {"scale": [".spec.size", ".spec.a"]}, ValueError, r"is in `\.status`"),
        (["example.com/v1"], {"selectable_fields": ".a"}, TypeError, r"selectable_fields is a list: \['.a'\]"),
        (["example.com/v1"], {"selectable_fields": [".a"] * 9}, ValueError, "at most 8 paths, got 9"),
        (["example.com/v1"], {"rules": ctrlhost.Rule("true")}, TypeError, "rules is a list"),
        (["example.com/v1"], {"columns": ["Size"]}, TypeError, "columns is a list"),
        (["example.com/v1"], {"columns": ctrlhost.Column("A", ".b")}, TypeError, "columns is a list"),
    ],
)
def test_a_mistake_is_an_error_where_it_is_written(arguments, options, error, message) -> None:
    with pytest.raises(error, match=message):

        @ctrlhost.resource(*arguments, **options)
        class Thing(msgspec.Struct):
            pass


def test_only_structs_can_be_decorated() -> None:
    with pytest.raises(TypeError, match=r"is for a msgspec\.Struct"):
        ctrlhost.resource("example.com/v1")(dict)


def test_a_column_that_the_server_would_refuse_is_an_error() -> None:
    with pytest.raises(ValueError, match="'Size' must begin with a dot"):
        ctrlhost.Column("Size", "spec.size")
    with pytest.raises(ValueError, match="type of column 'Size' must be boolean or date or"):
        ctrlhost.Column("Size", ".spec.size", "int")  # type: ignore[arg-type]


def test_a_list_map_with_a_field_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="ListMap has a field twice: name, name"):
        ctrlhost.ListMap("name", "name")


def test_a_subclass_is_another_kind() -> None:
    @ctrlhost.resource("example.com/v1")
    class Thing(msgspec.Struct):
        pass

    class Other(Thing):
        pass

    assert names_of(Other) is None


@pytest.mark.behaviour("findings3/NB20")
@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        # As flect 1.0.3 has them, which kubebuilder asks.
        ("Redis", "redis"),
        ("Metrics", "metrics"),
        ("Analysis", "analyses"),
        ("Quiz", "quizzes"),
        ("Prometheus", "prometheuses"),
        ("Repo", "repoes"),
        ("Ratio", "ratios"),
        ("Index", "indices"),
        ("Regex", "regexes"),
        ("Shelf", "shelves"),
        ("Datum", "data"),
        ("PopQuiz", "popquizzes"),
        ("MyIndex", "myindices"),
        ("BigData", "bigdata"),
        ("LinuxDNS", "linuxdns"),
        ("Endpoints", "endpoints"),
        # There it is `dnsdnses`.
        ("DNS", "dnses"),
        ("Memcached", "memcacheds"),
        ("Policy", "policies"),
        ("Gateway", "gateways"),
        ("Ingress", "ingresses"),
        ("Switch", "switches"),
    ],
)
def test_the_plural_is_the_usual_one(kind, plural) -> None:
    assert plural_of(kind) == plural
