"""Declarations of sources, results and permissions."""

from __future__ import annotations

import pytest

from ctrlhost import Every, For, Owns, Permission, PluginLoadError, Result, Watches
from ctrlhost.cache import Indexer
from ctrlhost.controller.attachment import Attachment
from ctrlhost.controller.source import Source
from ctrlhost.manifests.rbac import implied, plurals
from ctrlhost.selectors.namespaces import narrowed
from tests.support.controllers import WEB, Bench, Script, idle
from tests.support.waiting import eventually


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
        ("spec.replicas", ["3"]),
        ("metadata.name[*]", []),
    ],
)
def test_an_index_path_finds_the_scalars_at_its_end(path: str, values: list[str]) -> None:
    indexer = Indexer({"path": path})
    indexer.add(OBJECT)
    assert sorted(indexer.list_index_func_values("path")) == values


@pytest.mark.parametrize("path", ["", "spec.", "spec..host", "spec["])
def test_an_invalid_index_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="invalid index path"):
        Indexer({"path": path})


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda plugin: plugin.add_controller("", print), "'' cannot be the name of a controller"),
        (lambda plugin: plugin.add_controller("a/b", print), "'a/b' cannot be the name of a controller"),
        *(
            (lambda plugin, name=name: plugin.add_controller(name, print), "cannot be the name of a controller")
            for name in (".", "..", "a b", "a\tb", "a\n", "a\x7f", "a\u2028", "a\ud800", "a?b", "a#b", "a%2Fb")
        ),
        (lambda plugin: plugin.add_controller("a", None), "cannot be called"),
        (lambda plugin: plugin.add_controller("a", print, "v1"), "invalid source"),
        (lambda plugin: plugin.add_controller("a", print, For("v1", "Pod"), For("v1", "Node")), "more than one `For`"),
        (lambda plugin: plugin.add_controller("a", print, Owns("v1", "Pod")), "`Owns` needs a `For`"),
        (lambda plugin: plugin.add_controller("a", print, Every(3)), "`Every` without requests"),
        (lambda plugin: [plugin.add_controller("a", print) for _ in range(2)], "two controllers named `a`"),
        (lambda plugin: plugin.add_page("status", None), "must begin with a slash"),
        (lambda plugin: plugin.add_listener("8080", None), "HOST:PORT"),
    ],
)
@pytest.mark.behaviour("workqueue/K45")
@pytest.mark.behaviour("workqueue/K46")
def test_an_invalid_declaration_is_refused_by_name(bench: Bench, declare, message: str) -> None:
    with pytest.raises(PluginLoadError, match=message) as caught:
        declare(bench.plugin())
    assert caught.value.plugin == "demo"
    assert "demo" in caught.value.message


@pytest.mark.behaviour("workqueue/K46")
def test_controllers_of_two_plugins_may_share_a_name(bench: Bench) -> None:
    # No option turns the check off, since metrics and settings go by the name.
    names = [bench.plugin(name).add_controller("pods", print).name for name in ("one", "two")]
    assert names == ["one/pods", "two/pods"]
    plugin = bench.plugin()
    assert [plugin.add_controller(name, print).name for name in ("pods", "nodes")] == ["demo/pods", "demo/nodes"]


class Once(Source):
    """A source of another class: it enqueues one key when the workers start."""

    def attach(self, scope):
        class Starting(Attachment):
            def start(self):
                scope.queue.add(WEB)

        return Starting()

    def describe(self):
        return "once"

    def permissions(self, plural, limit):
        return [Permission("", [plural("v1", "Pod")[0]], ["get"])]


def test_a_source_of_another_class_needs_no_registration(bench: Bench) -> None:
    plugin, script = bench.plugin(), Script()
    plugin.add_controller("pods", script, Once())
    (controller,) = plugin.controllers
    controller.declare()
    controller.attach()
    assert controller.has_synced()
    assert controller.waiting() is None
    controller.start_workers()
    eventually(lambda: script.calls == [WEB] and idle(controller))
    assert controller.status().sources == ("once",)
    assert [permission.resources for permission in implied(plugin, plurals([]), ())] == [("pods",), ("events",)]
