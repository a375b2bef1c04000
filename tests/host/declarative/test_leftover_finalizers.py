"""Objects that have a finalizer of a controller which no longer selects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ctrlhost
from ctrlhost.testing import HostUnderTest
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

FINALIZER, FOREIGN = "example.com/cleanup", "example.com/theirs"
KEPT, LEFT = {"app": "kept"}, {"app": None}


class Plugin:
    """A plugin with a finalizing controller of ConfigMaps, which records its calls."""

    def __init__(
        self,
        kind: str = "v1/ConfigMap",
        *,
        is_async: bool = False,
        when: Any = None,
        gone: bool = False,
        **selection: Any,
    ) -> None:
        self.calls: list[str] = []
        self.plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
        self.plugin.__name__ = "demo"
        options: dict[str, Any] = {"name": "maps", "gone": gone}
        controller = self.plugin.controller(ctrlhost.For(kind, **selection), **options)(self._function("run", is_async))
        self.plugin.finalizer(FINALIZER, of=controller, when=when)(self._function("clean", is_async))

    def _function(self, name: str, is_async: bool) -> Any:
        def call(ctx: Any, obj: Any) -> None:
            self.calls.append(f"{name} {ctx.request.namespace}/{ctx.request.name}")

        async def call_async(ctx: Any, obj: Any) -> None:
            call(ctx, obj)

        return call_async if is_async else call


def config_map(name: str = "a", namespace: str = "default", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, **metadata}}


def finalizers(host: HostUnderTest, name: str = "a", namespace: str = "default") -> list[str]:
    names: list[str] = host.client.get("v1", "ConfigMap", name, namespace)["metadata"].get("finalizers") or []
    return names


def label(host: HostUnderTest, labels: dict[str, Any]) -> None:
    host.client.patch("v1", "ConfigMap", "a", "default", {"metadata": {"labels": labels}})


def removals(host: HostUnderTest) -> list[str]:
    return [event["note"] for event in host.events() if event["reason"] == "FinalizerRemoved"]


SELECTIONS = {
    "label": {"label_selector": "app=kept"},
    "field": {"field_selector": "metadata.name=a", "label_selector": "app=kept"},
    "fixed": {"label_selector": "app=kept", "namespaces": ["default"]},
    "predicates": {"label_selector": "app=kept", "predicates": [lambda old, new: False]},
}


@pytest.mark.behaviour("findings3/NA1")
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
def test_a_finalizer_comes_off_when_the_object_is_relabelled(
    ctrlhost_host: Any, selection: dict[str, Any], is_async: bool
) -> None:
    demo = Plugin(is_async=is_async, **selection)
    host = ctrlhost_host(demo.plugin, least_privilege=True)
    host.client.create(config_map(labels=KEPT, finalizers=[FOREIGN]))
    host.run_until_idle()
    if "predicates" not in selection:
        assert finalizers(host) == [FOREIGN, FINALIZER]
    else:
        host.client.patch("v1", "ConfigMap", "a", "default", {"metadata": {"finalizers": [FOREIGN, FINALIZER]}})
    demo.calls.clear()
    label(host, LEFT)
    host.wait_for(lambda: finalizers(host) == [FOREIGN])
    host.run_until_idle()
    assert demo.calls == []
    assert removals(host) == [f"removed {FINALIZER}: the controller no longer selects the object"]


@pytest.mark.behaviour("findings3/NA1")
def test_a_deleted_object_that_is_not_selected_is_let_go_also_after_a_restart_of_the_host(ctrlhost_host: Any) -> None:
    demo = Plugin(label_selector="app=kept", gone=True)
    host = ctrlhost_host(demo.plugin, least_privilege=True)
    host.client.create(config_map(labels=KEPT))
    host.client.create(config_map("b", labels=KEPT))
    host.client.create(config_map("other"))
    host.run_until_idle()
    assert host.stop()
    # While no host runs, both objects leave the selection, and one of them is deleted.
    label(host, LEFT)
    host.client.patch("v1", "ConfigMap", "b", "default", {"metadata": {"labels": LEFT}})
    host.client.delete("v1", "ConfigMap", "b", "default")
    other = Plugin(label_selector="app=kept")
    again = ctrlhost_host(other.plugin, sandbox=host.sandbox, least_privilege=True)
    again.wait_for(lambda: finalizers(again) == [])
    again.wait_for(lambda: again.client.find("v1", "ConfigMap", "b", "default") is None)
    again.run_until_idle()
    assert other.calls == []
    assert len(removals(again)) == 2
    # It comes back, with its finalizer.
    label(again, KEPT)
    again.wait_for(lambda: finalizers(again) == [FINALIZER])


@pytest.mark.behaviour("findings3/NA1")
def test_a_finalizer_whose_condition_is_no_longer_true_comes_off_with_an_event(ctrlhost_host: Any) -> None:
    demo = Plugin(when=lambda obj: obj.labels.get("app") == "kept")
    host = ctrlhost_host(demo.plugin, least_privilege=True)
    host.client.create(config_map(labels=KEPT))
    host.run_until_idle()
    assert finalizers(host) == [FINALIZER]
    label(host, LEFT)
    host.run_until_idle()
    assert finalizers(host) == []
    assert removals(host) == [f"removed {FINALIZER}: `when` is no longer true for the object"]


@pytest.mark.behaviour("findings3/NB1")
@pytest.mark.parametrize("entry", ["label:team=a", "team-*"])
def test_a_finalizer_comes_off_when_the_namespace_is_no_longer_selected(ctrlhost_host: Any, entry: str) -> None:
    demo = Plugin(namespaces=[entry, "label:never=set"])
    host = ctrlhost_host(demo.plugin, least_privilege=True)
    labels = {"team": "a"}
    host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-x", "labels": labels}})
    host.client.create(config_map(namespace="team-x"))
    host.wait_for(lambda: finalizers(host, namespace="team-x") == [FINALIZER])
    if entry == "team-*":
        # A namespace keeps its name: the selection of another version of the plugin is narrower.
        assert host.stop()
        demo = Plugin(namespaces=["other-*"])
        host = ctrlhost_host(demo.plugin, sandbox=host.sandbox, least_privilege=True)
    else:
        host.client.patch("v1", "Namespace", "team-x", None, {"metadata": {"labels": {"team": "b"}}})
    host.wait_for(lambda: finalizers(host, namespace="team-x") == [])
    assert "clean team-x/a" not in demo.calls


@pytest.mark.behaviour("findings3/NB1")
def test_a_namespace_that_is_deleted_holds_no_finalizer(ctrlhost_host: Any) -> None:
    demo = Plugin(namespaces=["label:team=a"])
    host = ctrlhost_host(demo.plugin, least_privilege=True)
    labels = {"team": "a"}
    host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-x", "labels": labels}})
    host.client.create(config_map(namespace="team-x"))
    host.wait_for(lambda: finalizers(host, namespace="team-x") == [FINALIZER])
    host.client.delete("v1", "Namespace", "team-x")
    host.wait_for(lambda: host.client.find("v1", "Namespace", "team-x") is None)
    assert "clean team-x/a" in demo.calls


#: How a Secret is selected by a label whose value is the name of its namespace, or by a label of that.
ON_EACH_SERVER: dict[str, dict[str, Any]] = {
    "a label": {"label_selector": "mine={}"},
    "two labels": {"label_selector": "mine={},other!=2"},
    "a field": {"field_selector": "type=Opaque", "label_selector": "mine={}"},
    "namespaces": {"namespaces": ["label:mine={}"]},
}


@pytest.mark.behaviour("findings3/NB1")
@pytest.mark.parametrize("restarted", [False, True], ids=["while it runs", "while it is down"])
@pytest.mark.parametrize("selection", ON_EACH_SERVER)
def test_each_server_lets_an_object_go_that_is_no_longer_selected(
    ctrlhost_host: Any, control_plane: ControlPlane, namespace: str, selection: str, restarted: bool
) -> None:
    client, chosen = control_plane.client, ON_EACH_SERVER[selection]
    demo = Plugin(
        "v1/Secret",
        **{
            name: [text.format(namespace) for text in texts] if isinstance(texts, list) else texts.format(namespace)
            for name, texts in chosen.items()
        },
    )

    def finalizers_of(name: str) -> list[str]:
        return client.get("v1", "Secret", name, namespace)["metadata"].get("finalizers") or []

    if by_namespace := selection == "namespaces":
        client.patch("v1", "Namespace", namespace, None, {"metadata": {"labels": {"mine": namespace}}})
    for name, labels in (("mine", {"mine": namespace}), ("theirs", {})):
        metadata = {"name": name, "namespace": namespace, "labels": labels, "finalizers": [FOREIGN]}
        client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    host = ctrlhost_host(demo.plugin, server=control_plane.kubeconfig)
    eventually(lambda: finalizers_of("mine") == [FOREIGN, FINALIZER])
    host.settle()
    if restarted:
        host.stop()
    changed = ("Namespace", namespace, None) if by_namespace else ("Secret", "mine", namespace)
    client.patch("v1", *changed, {"metadata": {"labels": {"mine": None}}})
    if not restarted:
        eventually(lambda: finalizers_of("mine") == [FOREIGN])
    client.delete("v1", "Secret", "mine", namespace)
    if restarted:
        host = ctrlhost_host(demo.plugin, server=control_plane.kubeconfig)
    eventually(lambda: finalizers_of("mine") == [FOREIGN])
    host.settle()
    assert not [call for call in demo.calls if call.startswith("clean")]
    if not by_namespace:
        assert finalizers_of("theirs") == [FOREIGN]
