"""What plugins ship besides their CRDs: `ctrlhost manifests` prints it, and who installs the CRDs applies it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.supervisor.crds import Installation, install_crds
from ctrlhost.supervisor.loader import PluginManager
from tests.host.conftest import Distributions, StartHost
from tests.support.control_plane import ControlPlane
from tests.support.objects import crd
from tests.support.plugin_sources import WIDGETS, hook

pytestmark = pytest.mark.behaviour("findings3/NA29")

CLASS = ("scheduling.k8s.io/v1", "PriorityClass", "shop-important")
#: A class, an object in a namespace, and one of the plugin's own kind; another file has a policy.
OBJECTS = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: shop-important, labels: {app.kubernetes.io/part-of: shop}}
value: 1000
---
apiVersion: v1
kind: ConfigMap
metadata: {name: defaults, namespace: default}
data: {size: "3"}
---
apiVersion: shipped.test/v1
kind: Widget
metadata: {name: first, namespace: default}
"""
POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: widgets.shipped.test}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [shipped.test], apiVersions: [v1], operations: [DELETE], resources: [widgets]}]
  validations: [{expression: "oldObject.metadata.name != 'first'"}]
"""
DECLARED = """
    import ctrlhost

    plugin = ctrlhost.Plugin(crds="widgets.yaml", objects=["objects/*.yaml", "policy.yaml"])

    @plugin.controller("shipped.test/v1/Widget")
    def widgets(ctx, widget):
        ctx.log.info("saw widget %s", widget.name)
"""


@pytest.fixture(autouse=True)
def shop(distributions: Distributions) -> None:
    """Install a plugin that ships objects; the plugin `widgets` defines the kind of one of them."""
    namespace: dict[str, Any] = {}
    # A group of its own: the servers are those of other tests, too.
    exec(dedent(WIDGETS.replace("host.test", "shipped.test")), namespace)
    (distributions.folder / "widgets.yaml").write_text(yaml.safe_dump(namespace["ctrlhost_crds"]()[0]))
    (distributions.folder / "objects").mkdir()
    (distributions.folder / "objects" / "all.yaml").write_text(OBJECTS)
    (distributions.folder / "policy.yaml").write_text(POLICY)
    distributions.add("shop", DECLARED, version="2.1")


def names(documents: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(document["kind"], document["metadata"]["name"]) for document in documents]


def test_manifests_print_them(ctrlhost: Callable[..., Any]) -> None:
    def printed(*arguments: str) -> list[dict[str, Any]]:
        result = ctrlhost("manifests", "--plugins=shop", "--image=example.com/host:1", *arguments)
        assert result.returncode == 0, result.stderr
        return list(yaml.safe_load_all(result.stdout))

    documents = printed()
    shipped = [
        ("PriorityClass", "shop-important"),
        ("ConfigMap", "defaults"),
        ("Widget", "first"),
        ("ValidatingAdmissionPolicy", "widgets.shipped.test"),
    ]
    # What they need is before them, and the host, which they may restrict, after them.
    assert names(documents)[1:6] == [("CustomResourceDefinition", "widgets.shipped.test"), *shipped]
    for document in documents[2:6]:
        assert document["metadata"]["annotations"]["ctrlhost.dev/plugin-version"] == "2.1"
        # Other installations may use them, so they do not go with one.
        assert "app.kubernetes.io/instance" not in document["metadata"]["labels"]
        assert document["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ctrlhost"
    assert documents[2]["metadata"]["labels"]["app.kubernetes.io/part-of"] == "shop"
    assert not set(shipped) & set(names(printed("--uninstall")))
    # `ctrlhost crds` has CRDs only.
    crds = ctrlhost("crds", "--plugins=shop").stdout
    assert names(list(yaml.safe_load_all(crds))) == [("CustomResourceDefinition", "widgets.shipped.test")]


@pytest.mark.parametrize("isolated", [(), ("--isolate=shop",)], ids=["in the host", "isolated"])
def test_a_host_that_installs_crds_applies_them(
    start_host: StartHost, control_plane: ControlPlane, isolated: tuple[str, ...]
) -> None:
    client = control_plane.client
    arguments = (f"--kubeconfig={control_plane.kubeconfig}", "--install-crds", *isolated)
    host = start_host(*arguments, plugins="shop")
    host.line("saw widget first")
    for text in (
        "PriorityClass shop-important",
        "ConfigMap default/defaults",
        "Widget default/first",
        "ValidatingAdmissionPolicy w",
    ):
        host.line(f"installed {text}")
    assert client.get(*CLASS)["value"] == 1000
    policy = client.get("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "widgets.shipped.test")
    assert policy["metadata"]["annotations"]["ctrlhost.dev/plugin-version"] == "2.1"
    client.delete("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "widgets.shipped.test")
    assert host.stop() == 0

    # Without the option, a host leaves them alone.
    client.delete(*CLASS)
    host = start_host(f"--kubeconfig={control_plane.kubeconfig}", *isolated, plugins="shop")
    host.line("saw widget first")
    assert client.find(*CLASS) is None
    assert host.stop() == 0
    client.delete("v1", "ConfigMap", "defaults", "default")
    client.delete("shipped.test/v1", "Widget", "first", "default")


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[ctrlhost.Client]:
    with closing(ctrlhost.Client.load(sandbox.kubeconfig)) as client:
        yield client


def test_a_newer_plugin_keeps_its_objects(client: ctrlhost.Client, caplog: pytest.LogCaptureFixture) -> None:
    def installed(version: str, size: str, *, force: bool = False) -> str:
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d", "namespace": "default"}}
        installation, stop = Installation(version, force=force), threading.Event()
        assert install_crds(client, [], stop, pytest.fail, installation, [{**obj, "data": {"size": size}}])
        data: dict[str, str] = client.get("v1", "ConfigMap", "d", "default")["data"]
        return data["size"]

    assert installed("2.0", "2") == "2"
    assert installed("1.0", "1") == "2"
    assert "ConfigMap default/d stays as it is: version 2.0 of the plugin installed it, and this is 1.0" in caplog.text
    assert installed("1.0", "1", force=True) == "1"
    assert installed("2.1", "3") == "3"
    before = client.get("v1", "ConfigMap", "d", "default")
    assert installed("2.1", "3") == "3"
    assert client.get("v1", "ConfigMap", "d", "default") == before
    # What the plugin no longer sets goes, what others set stays.
    client.patch("v1", "ConfigMap", "d", "default", {"data": {"theirs": "1"}})
    assert installed("2.2", "4") == "4"
    assert client.get("v1", "ConfigMap", "d", "default")["data"] == {"size": "4", "theirs": "1"}


def test_a_kind_that_the_server_lacks_keeps_no_plugin_from_running(
    client: ctrlhost.Client, caplog: pytest.LogCaptureFixture
) -> None:
    thing = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "default"}}
    assert install_crds(client, [], threading.Event(), pytest.fail, Installation(), [thing])
    assert "Thing default/t is not installed: " in caplog.text
    # That of the plugin itself is served as soon as its CRD is established.
    crds = [crd("x.io", "Thing")]
    assert install_crds(client, crds, threading.Event(), lambda _: None, Installation(), [thing])
    assert client.get("x.io/v1", "Thing", "t", "default")["metadata"]["uid"]


def test_a_host_with_least_privileges_finds_them_installed(ctrlhost_host: Callable[..., Any]) -> None:
    with Sandbox(rbac=True) as sandbox:
        host = ctrlhost_host("shop", sandbox=sandbox, least_privilege=True)
        assert host.client.get(*CLASS)["value"] == 1000


METADATA = {"name": "x"}
LISTED = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "annotations": ["a"]}}
NUMBERED = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": 5}}


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (3, "3 is not an object"),
        ({"kind": "Role", "metadata": METADATA}, "{'kind': 'Role', 'metadata': {'name': 'x'}}: apiVersion: Required"),
        ({"apiVersion": "v1", "metadata": METADATA}, "{'apiVersion': 'v1', 'metadata': {'name': 'x'}}: kind: Required"),
        (
            {"apiVersion": "v1", "kind": "Secret"},
            "{'apiVersion': 'v1', 'kind': 'Secret'}: metadata.name: Required value",
        ),
        ({"apiVersion": "v1", "kind": "Secret", "metadata": METADATA}, "Secret x: metadata.namespace: Required value"),
        (LISTED, f"{LISTED!r:.80}: metadata.annotations: Invalid value"),
        (NUMBERED, f"{NUMBERED!r:.80}: metadata.namespace: Invalid value"),
        (crd("x.io", "Thing"), "CustomResourceDefinition things.x.io is a CRD, which belongs to those of the plugin"),
    ],
)
def test_what_cannot_be_shipped_is_refused(
    ctrlhost: Callable[..., Any], distributions: Distributions, returned: Any, problem: str
) -> None:
    distributions.add("hooks", hook("ctrlhost_objects", f"return [{returned!r}]", parameters=""))
    for command in (["manifests", "--image=x:1"], ["check", "--offline"]):
        result = ctrlhost(*command, "--plugins=hooks")
        assert result.returncode != 0
        assert f"ctrlhost_objects: {problem}" in result.stdout + result.stderr


def test_a_missing_file_and_one_that_is_not_yaml_are_named(distributions: Distributions) -> None:
    (distributions.folder / "module_with_files.py").write_text("")
    plugin = ctrlhost.Plugin(objects="none-such.yaml")
    plugin.declaration.module = "module_with_files"
    loaded = PluginManager().register("demo", plugin)
    with pytest.raises(
        ctrlhost.PluginLoadError, match=r"objects: no file `none-such\.yaml` in the package module_with"
    ):
        loaded.objects()
    Path(distributions.folder, "none-such.yaml").write_text("a: [")
    with pytest.raises(ctrlhost.PluginLoadError, match=r"objects: module_with_files/none-such\.yaml: invalid YAML"):
        loaded.objects()
