"""`ctrlhost explain-key`: the object of the key, in the cache and on the server, and what holds its deletion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost import Client
from tests.support.plugin_modules import config_map
from tests.support.status import key_of

if TYPE_CHECKING:
    from tests.host.conftest import Distributions, StartHost

behaviour = pytest.mark.behaviour

PLUGIN = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        maps = ctrlhost.For("v1", "ConfigMap", label_selector="mine", predicates=[lambda old, new: old is None])
        plugin.add_controller("maps", lambda ctx, request: None, maps)
        plugin.add_controller("deployments", lambda ctx, request: None, ctrlhost.For("apps/v1", "Deployment"))
        plugin.add_controller("parts", lambda ctx, request: None, ctrlhost.For("v1", "Node", reads="metadata"))
"""
FOREIGN = "other.example.com/hold"


def explained(run: Any, host: Any, *arguments: str) -> list[str]:
    done = run("explain-key", f"--url=http://{host.address}", *arguments)
    assert done.returncode == 0, done.stderr
    lines: list[str] = done.stdout.splitlines()
    return lines[[line.split()[0] for line in lines].index("object") :]


@behaviour("authoring/AK7")
def test_the_finalizer_that_holds_an_object_is_named_with_the_time_of_the_deletion(
    distributions: Distributions, start_host: StartHost, ctrlhost: Any
) -> None:
    distributions.add("demo", PLUGIN)
    host = start_host("--sandbox", plugins="demo")
    client = Client.load(host.kubeconfig)
    client.create(config_map("ann", labels={"mine": "1"}))
    held = config_map("held", labels={"mine": "1"})
    held["metadata"]["finalizers"] = [FOREIGN]
    client.create(held)
    host.line("plugin demo running")
    host.eventually(lambda: key_of(host, "demo/maps", "default/held")["object"]["cached_version"], "cached object")
    version = client.get("v1", "ConfigMap", "held")["metadata"]["resourceVersion"]
    assert explained(ctrlhost, host, "demo/maps", "default/held") == [
        f"  object     cached rv={version}; server rv={version}",
        f"  finalizers {FOREIGN} present",
    ]
    client.delete("v1", "ConfigMap", "held")
    live = client.get("v1", "ConfigMap", "held")["metadata"]
    version, since = live["resourceVersion"], live["deletionTimestamp"]
    host.eventually(lambda: key_of(host, "demo/maps", "default/held")["object"]["deleted_since"], "deletion")
    assert explained(ctrlhost, host, "demo/maps", "default/held") == [
        f"  object     cached rv={version}; server rv={version}",
        f"  finalizers {FOREIGN} holds the deletion since {since}",
    ]
    printed = ctrlhost("explain-key", f"--url=http://{host.address}", "demo/maps", "default/held", "--output=json")
    facts = json.loads(printed.stdout)["object"]
    assert (facts["deleted_since"], facts["server"]) == (since, "found")
    assert facts["finalizers"] == [{"name": FOREIGN, "own": False, "present": True}]


@behaviour("authoring/AK6")
def test_versions_and_generations_of_the_object(
    distributions: Distributions, start_host: StartHost, ctrlhost: Any
) -> None:
    distributions.add("demo", PLUGIN)
    host = start_host("--sandbox", plugins="demo")
    client = Client.load(host.kubeconfig)
    labels = {"app": "web"}
    container = {"name": "web", "image": "web:1"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    client.create(deployment)
    client.patch("apps/v1", "Deployment", "web", "default", {"spec": {"replicas": 2}})
    live = client.patch(
        "apps/v1", "Deployment", "web", "default", {"status": {"observedGeneration": 1}}, subresource="status"
    )
    version = live["metadata"]["resourceVersion"]
    host.line("plugin demo running")
    host.eventually(
        lambda: key_of(host, "demo/deployments", "default/web")["object"]["cached_version"] == version, "new version"
    )
    assert explained(ctrlhost, host, "demo/deployments", "default/web") == [
        f"  object     cached rv={version} generation=2; server rv={version}; status.observedGeneration=1"
    ]
    # Another one is not cached, and the server has it.
    version = client.create(config_map("bob"))["metadata"]["resourceVersion"]
    assert explained(ctrlhost, host, "demo/maps", "default/bob") == [f"  object     not cached; server rv={version}"]
    assert explained(ctrlhost, host, "demo/maps", "default/none") == ["  object     not cached; server: missing"]
    assert key_of(host, "demo/parts", "no-node")["object"]["observed_generation"] is None
    client.close()


DECLARED = """
    import ctrlhost

    plugin = ctrlhost.Plugin()

    @plugin.controller("v1/ConfigMap", name="maps")
    def reconcile(ctx, obj): ...

    @plugin.finalizer("demo.example.com/cleanup", of=reconcile, when=lambda obj: obj.name == "ann")
    def clean_up(ctx, obj): ...
"""


def test_a_finalizer_of_the_plugin_is_marked(
    distributions: Distributions, start_host: StartHost, ctrlhost: Any
) -> None:
    distributions.add("demo", DECLARED)
    host = start_host("--sandbox", plugins="demo")
    client = Client.load(host.kubeconfig)
    for name in ("ann", "bob"):
        client.create(config_map(name))
        host.eventually(
            lambda name=name: key_of(host, "demo/maps", f"default/{name}")["reconciles"], f"reconcile of {name}"
        )
    host.eventually(
        lambda: key_of(host, "demo/maps", "default/ann")["object"]["finalizers"][0]["present"], "cached finalizer"
    )
    own = "demo.example.com/cleanup (this plugin)"
    assert explained(ctrlhost, host, "demo/maps", "default/ann")[1:] == [f"  finalizers {own} present"]
    assert explained(ctrlhost, host, "demo/maps", "default/bob")[1:] == [f"  finalizers {own} absent"]
    client.close()


def test_a_key_that_no_object_of_the_kind_can_have_is_refused(
    distributions: Distributions, start_host: StartHost, ctrlhost: Any
) -> None:
    distributions.add("demo", PLUGIN)
    host = start_host("--sandbox", plugins="demo")
    client = Client.load(host.kubeconfig)
    client.create(config_map("ann"))
    host.line("plugin demo running")
    right = {
        ("demo/maps", "ann"): "write it as NAMESPACE/NAME, such as `default/ann`",
        ("demo/maps", "a/b/c"): "write it as NAMESPACE/NAME, such as `b/c`",
        ("demo/maps", "\u00fc "): "write it as NAMESPACE/NAME",
        ("demo/parts", "default/node"): "write it as NAME, such as `node`",
    }
    for (controller, key), hint in right.items():
        done = ctrlhost("explain-key", f"--url=http://{host.address}", controller, key)
        assert done.returncode == 2, done.stdout
        kind = "ConfigMap" if controller == "demo/maps" else "Node"
        assert f"no {kind} has the key `{key}`" in done.stderr
        assert f"hint: {hint}\n" in done.stderr
