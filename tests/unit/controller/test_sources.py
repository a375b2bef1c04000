"""Declarations of sources, results and permissions."""

from __future__ import annotations

import pytest

from ctrlhost import Every, For, Owns, Permission, Result, Watches
from ctrlhost.controller.index_path import index_function, parse
from ctrlhost.selectors.namespaces import narrowed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: For("", "Pod"), "apiVersion and a kind"),
        (lambda: Owns("v1", ""), "apiVersion and a kind"),
        (lambda: For("a/b/c", "Pod"), "invalid apiVersion"),
        (lambda: For("v1", "Pod", reads="spec"), "sequence of paths"),
        (lambda: Every(0), "positive"),
        (lambda: Every(float("inf")), "positive"),
    ],
)
@pytest.mark.behaviour("workqueue/H17")
def test_an_invalid_source_is_refused_when_created(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: For("v1", "Pod", namespaces="default"),
        lambda: For("v1", "Pod", namespaces=[5]),
        lambda: For("v1", "Pod", label_selector={"a": "b"}),
        lambda: For("v1", "Pod", field_selector=5),
        lambda: For("v1", "Pod", indexes={"app": 5}),
        lambda: For("v1", "Pod", predicates=lambda old, new: True),
        lambda: Watches("v1", "Pod", map="object"),
        lambda: Permission("", "pods", ["get"]),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_when_created(make) -> None:
    with pytest.raises(TypeError):
        make()


def test_a_map_cannot_be_a_coroutine_function() -> None:
    async def requests(obj):
        return []

    with pytest.raises(TypeError, match="plain function"):
        Watches("v1", "Pod", map=requests)


def test_the_group_of_a_source_precedes_the_slash() -> None:
    assert For("v1", "Pod").group == ""
    assert For("apps/v1", "Deployment").group == "apps"


@pytest.mark.parametrize(
    ("result", "zero"),
    [
        (Result(), True),
        (Result(requeue_after=0), True),
        (Result(requeue_after=-1), True),
        (Result(priority=3), True),
        (Result(requeue_after=0.1), False),
    ],
)
@pytest.mark.behaviour("workqueue/K41")
def test_a_result_is_zero_unless_it_requests_another_run(result: Result, zero: bool) -> None:
    assert result.is_zero() is zero


def test_a_permission_is_an_rbac_rule() -> None:
    permission = Permission("apps", ["deployments"], ["get", "patch"], resource_names=["web"])
    assert permission.rule() == {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["get", "patch"],
        "resourceNames": ["web"],
    }


@pytest.mark.parametrize(
    ("wanted", "limit", "allowed"),
    [
        (None, None, None),
        (["a", "b"], None, ("a", "b")),
        (None, ["a"], ("a",)),
        (["a", "b"], ["b", "c"], ("b",)),
        (None, (), None),
    ],
)
def test_the_operator_narrows_the_namespaces_of_a_source(wanted, limit, allowed) -> None:
    assert narrowed(wanted, limit) == allowed


def test_the_fields_of_an_index_are_cached_too() -> None:
    assert For("v1", "Pod", reads="metadata", indexes={"node": "spec.nodeName"}).cached() == ("spec.nodeName",)
    assert For("v1", "Pod", reads=["status"], indexes={"host": "spec.rules[*].host"}).cached() == (
        "status",
        "spec.rules",
    )
    assert For("v1", "Pod", reads="metadata", indexes={"app": "metadata.labels.app"}).cached() == "metadata"
    assert For("v1", "Pod", reads="metadata", indexes={"any": lambda obj: ["x"]}).cached() is None


OBJECT = {
    "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web"}},
    "spec": {"rules": [{"host": "a"}, {"host": "b"}, {}, {"host": "a"}], "replicas": 3},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("spec.rules[*].host", ["a", "b"]),
        ('metadata.labels["app.kubernetes.io/name"]', ["web"]),
        ("spec.nothing.here", []),
        ("spec.rules.host", []),
        ("spec.replicas", []),
        ("metadata.name[*]", []),
    ],
)
def test_an_index_path_finds_the_strings_at_its_end(path: str, values: list[str]) -> None:
    assert index_function(path)(OBJECT) == values


@pytest.mark.parametrize("path", ["", ".spec", "spec.", "spec..host", "spec[0]", "spec[", "[*].host"])
def test_an_invalid_index_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="index path"):
        index_function(path)


def test_an_index_path_is_split_into_fields_and_lists() -> None:
    assert parse('spec.a[*].b["c.d"]') == ["spec", "a", None, "b", "c.d"]
