"""A kind that is not served, and rights that are missing: what the log, the probes and the errors say."""

from __future__ import annotations

import logging
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import For, Forbidden, Permission
from ctrlhost.testing import NotSettled
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.plugin_sources import WIDGETS
from tests.support.reconcilers import controller

if TYPE_CHECKING:
    from tests.host.conftest import Distributions, StartHost

behaviour = pytest.mark.behaviour

READER = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", lambda ctx, request: None, ctrlhost.For("v1", "ConfigMap", namespaces=["team"]))
"""
LISTEN = "127.0.0.1:0"
UNSERVED = {
    ("apps/v1", "Deploymnet"): "no kind `Deploymnet` in apps/v1; did you mean `Deployment`?",
    ("apps/v1beta1", "Deployment"): "apps/v1beta1 is not served; apps has v1",
}


def ready_text(host: Any) -> str:
    with urllib.request.urlopen(f"http://{host.host.address}/readyz?verbose", timeout=60) as answer:
        text: str = answer.read().decode()
    return text


@behaviour("authoring/AM3")
@pytest.mark.parametrize(("kind", "text"), list(UNSERVED.items()), ids=lambda case: case[1] if len(case) == 2 else "")
def test_an_unserved_kind_is_named_with_what_the_server_has(
    ctrlhost_host: Any, caplog: pytest.LogCaptureFixture, kind: tuple[str, str], text: str
) -> None:
    caplog.set_level(logging.INFO)
    host = ctrlhost_host(controller(lambda _ctx, _request: None, For(*kind)), listen=LISTEN, start_timeout=0.0)
    plugin = host.host.plugins[0]
    host.wait_for(lambda: plugin.state == "waiting")
    assert text in plugin.reason
    assert any(
        text in record.getMessage() for record in caplog.records if "plugin demo waiting: " in record.getMessage()
    )
    (line,) = [line for line in ready_text(host).splitlines() if "plugin/demo" in line]
    assert f"waiting: {kind[1]} ({kind[0]}): {text}" in line
    with pytest.raises(NotSettled) as caught:
        host.settle()
    assert text in str(caught.value)


@behaviour("authoring/AM4")
def test_a_missing_right_to_list_is_named_with_the_command_for_the_role(
    distributions: Distributions, start_host: StartHost
) -> None:
    distributions.add("maps", READER)
    with Sandbox(rbac=True) as sandbox:
        host = start_host(f"--kubeconfig={sandbox.kubeconfig_for(user='somebody')}", plugins="maps")
        rule = (
            '{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]} to a Role in namespace team'
        )
        host.line(
            "plugin maps waiting: ",
            "no permission to list ConfigMap (v1) in namespace team: ",
            'cannot list resource "configmaps" in API group "" in the namespace "team"',
            "`ctrlhost manifests --plugins=maps --image=IMAGE | kubectl apply --server-side -f -` grants its rights",
        )
        (line,) = [line for line in host.get("/readyz?verbose")[1].splitlines() if "plugin/maps" in line]
        assert (
            "`ctrlhost manifests --plugins=maps --image=IMAGE | kubectl apply --server-side -f -` grants its rights"
            in line
        )
        lacks = host.line("2 rights missing for maps: run `ctrlhost manifests --plugins=maps ")
        assert rule in lacks["rights"]
        assert len([line for line in host.lines if "rights missing" in line["msg"]]) == 1


@behaviour("authoring/AM4")
def test_a_write_without_its_right_fails_with_the_line_to_add(
    ctrlhost_host: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caught: list[Forbidden] = []

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        try:
            if request.name == "patched":
                ctx.client.patch("v1", "ConfigMap", request.name, request.namespace, {"data": {"a": "b"}})
            else:
                ctrlhost.finalizers.add(ctx.client, ctx.client.get("v1", "ConfigMap", request.name), "a.dev/b")
        except Forbidden as error:
            caught.append(error)
            raise

    plugin = plugin_of(
        lambda context: context.add_controller("c", reconcile, For("v1", "ConfigMap", label_selector="mine")),
        permissions=lambda settings: [Permission("", ["configmaps"], ["get"])],
    )
    host = ctrlhost_host(plugin, least_privilege=True)
    hint = 'plugin.permission("", ["configmaps"], ["patch"])'
    for name in ("patched", "finalized"):
        caught.clear()
        host.client.create(config_map(name, labels={"mine": "1"}))
        host.wait_for(lambda: caught)
        assert str(caught[0].hint).startswith(hint)
        assert 'cannot patch resource "configmaps"' in caught[0].message
        assert hint in host.wait_for(lambda: host.controllers["demo/c"].status().last_error)
    assert any(hint in record.getMessage() for record in caplog.records if "reconcile failed" in record.getMessage())


def test_another_reason_for_a_403_has_no_such_hint(sandbox: Sandbox) -> None:
    client = ctrlhost.Client.load(sandbox.kubeconfig)
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone", "finalizers": ["a.dev/b"]}})
    client.delete("v1", "Namespace", "gone")
    with pytest.raises(Forbidden) as caught:
        client.create(config_map("a", "gone"))
    assert "being terminated" in caught.value.message
    assert caught.value.hint is None


@pytest.mark.behaviour("findings3/NO13")
def test_the_line_of_a_plugin_that_waits_names_the_kind_once(distributions: Any, start_host: Any, sandbox: Any) -> None:
    distributions.add("widgets", WIDGETS)
    host = start_host(f"--kubeconfig={sandbox.kubeconfig}", plugins="widgets")
    message = host.line("plugin widgets waiting: ")["msg"]
    assert message.count("Widget") == message.count("host.test/v1") == 1
    assert "the server does not serve it" in message
    assert host.stop() == 0
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert "--install-crds   # against your cluster" in readme
