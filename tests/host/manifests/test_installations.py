"""Several installations in a cluster: names and labels of what `ctrlhost manifests` prints."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.manifests import SERVER, Manifest, Printed, container, of_kind
from tests.support.plugin_sources import WIDGETS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost_sandbox import Sandbox

pytestmark = pytest.mark.behaviour("findings3/NO1")
SHARED = ("CustomResourceDefinition", "Namespace")
PREFIX = "app.kubernetes.io"

#: Its Roles are in namespaces that installations share.
GUEST = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("guest", lambda ctx, request: None, ctrlhost.For("v1", "ConfigMap", namespaces=["both"]))

    @ctrlhost.hookimpl
    def ctrlhost_permissions(settings):
        yield ctrlhost.Permission("", ["nodes"], ["get"])
"""


@pytest.fixture(autouse=True)
def plugins(distributions: Any) -> None:
    distributions.add("guest", GUEST)
    distributions.add("server", SERVER)
    distributions.add("widgets", WIDGETS, version="2.1")


def identities(documents: Iterable[Manifest]) -> set[tuple[str, str | None, str]]:
    return {
        (document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"])
        for document in documents
    }


ARGUMENTS = ("--plugins=guest,server,widgets", "--leader-elect", "--monitor")


@pytest.mark.parametrize("deployments", ["one", "per-plugin"])
def test_no_object_of_an_installation_is_one_of_another(printed: Printed, deployments: str) -> None:
    def of(*arguments: str) -> list[Manifest]:
        return printed(*ARGUMENTS, f"--deployments={deployments}", *arguments)

    installations = [of("--deploy-namespace=a"), of("--deploy-namespace=b"), of("--deploy-namespace=a", "--name=b")]
    own = [
        identities(document for document in documents if document["kind"] not in SHARED) for documents in installations
    ]
    for number, objects in enumerate(own):
        for others in own[:number]:
            assert not objects & others
    outside = [(kind, name) for kind, namespace, name in own[0] if namespace != "a"]
    assert {kind for kind, _ in outside} == {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    assert all(name.startswith("a-ctrlhost") for _, name in outside)
    # Nor do two in one namespace wait for one Lease.
    leases = [re.findall(r"leader_elect_resource_name=(\S+)'", str(documents)) for documents in installations]
    assert not set(leases[0] or ["ctrlhost"]) & set(leases[2])


def test_a_name_keeps_the_lease_of_the_settings(printed: Printed) -> None:
    documents = printed(*ARGUMENTS, "--name=b", "--set=host.leader_elect_resource_name=mine")
    assert [text for text in container(documents)["args"] if "resource_name" in text] == [
        "--set=host.leader_elect_resource_name=mine"
    ]


def test_all_objects_have_the_standard_labels(printed: Printed) -> None:
    documents = printed(*ARGUMENTS, "--deploy-namespace=a", "--name=shop")
    common = {f"{PREFIX}/part-of": "ctrlhost", f"{PREFIX}/managed-by": "ctrlhost"}
    for document in documents:
        labels = document["metadata"].get("labels", {})
        if document["kind"] in SHARED:
            # Who deletes by the label of an installation must not delete the objects of others.
            assert f"{PREFIX}/instance" not in labels
            assert document["metadata"]["name"] == "both" or common.items() <= labels.items()
            continue
        assert labels[f"{PREFIX}/instance"] == "a-shop"
        assert common.items() <= labels.items()
        assert {f"{PREFIX}/{name}" for name in ("name", "version", "component")} <= labels.keys()
        assert all(re.fullmatch("[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", value) for value in labels.values())
    (deployment,) = of_kind(documents, "Deployment")
    pods = deployment["spec"]["template"]["metadata"]["labels"]
    assert pods | {"ctrlhost.dev/plugins": "guest.server.widgets"} == deployment["metadata"]["labels"]
    (long,) = of_kind(printed("--plugins=guest", f"--deploy-namespace={'n' * 60}"), "Deployment")
    assert re.fullmatch("n{54}-[0-9a-f]{8}", long["metadata"]["labels"][f"{PREFIX}/instance"])


@pytest.mark.behaviour("findings3/NO8")
def test_what_a_removed_plugin_leaves_is_found_by_its_labels(printed: Printed, sandbox: Sandbox) -> None:
    from ctrlhost.client import Client

    selector = f"{PREFIX}/instance=ctrlhost-system-ctrlhost,ctrlhost.dev/plugins!=server"
    with closing(Client.load(sandbox.kubeconfig)) as client:
        for plugins in ("guest,server", "server"):
            for document in printed(f"--plugins={plugins}"):
                client.apply(document)
        kinds = ("v1/Service", "v1/ServiceAccount", "apps/v1/Deployment", "networking.k8s.io/v1/NetworkPolicy")
        kinds += tuple(f"rbac.authorization.k8s.io/v1/{kind}" for kind in ("Role", "RoleBinding"))
        kinds += tuple(f"rbac.authorization.k8s.io/v1/Cluster{kind}" for kind in ("Role", "RoleBinding"))
        left = [
            (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"])
            for kind in kinds
            for obj in client.list(*kind.rsplit("/", 1), label_selector=selector)
        ]
    # The Role in the namespace that only the removed plugin watched, the ClusterRole of its own right, their bindings.
    assert left == [
        ("Role", "both", "ctrlhost-system-ctrlhost"),
        ("RoleBinding", "both", "ctrlhost-system-ctrlhost"),
        ("ClusterRole", None, "ctrlhost-system-ctrlhost"),
        ("ClusterRoleBinding", None, "ctrlhost-system-ctrlhost"),
    ]


def test_uninstalling_one_leaves_the_other_as_it_is(printed: Printed, sandbox: Sandbox) -> None:
    from ctrlhost.client import Client

    with closing(Client.load(sandbox.kubeconfig)) as client:
        first, second = (printed("--plugins=guest", f"--deploy-namespace={name}") for name in ("a", "b"))
        for document in [*first, *second]:
            client.apply(document)

        def stored(documents: list[Manifest]) -> list[Any]:
            return [
                client.find(
                    entry["apiVersion"], entry["kind"], entry["metadata"]["name"], entry["metadata"].get("namespace")
                )
                for entry in documents
            ]

        before = stored(second)
        for manifest in printed("--plugins=guest", "--deploy-namespace=a", "--uninstall"):
            client.delete(
                manifest["apiVersion"],
                manifest["kind"],
                manifest["metadata"]["name"],
                manifest["metadata"].get("namespace"),
            )
        assert stored(second) == before
        assert None not in before
