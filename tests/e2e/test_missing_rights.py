"""A plugin whose declared right is missing waits with the rule to add, and runs soon after the grant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.host.conftest import Distributions, StartHost, distributions, start_host
from tests.support.status import status_of

if TYPE_CHECKING:
    from tests.support.control_plane import KubeApiserver

__all__ = ["distributions", "start_host"]

RBAC = "rbac.authorization.k8s.io"

PLUGIN = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", lambda ctx, request: None, ctrlhost.For("v1", "{kind}"))

    @ctrlhost.hookimpl
    def ctrlhost_permissions(settings):
        return [ctrlhost.Permission("", ["{resource}"], ["delete"])]
"""


class Grants:
    """Grants rights to the user `limited`, until the end of the test."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._names: list[str] = []

    def add(self, name: str, *rules: dict[str, Any]) -> None:
        subjects = [{"kind": "User", "name": "limited", "apiGroup": RBAC}]
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        for kind, content in (
            ("ClusterRole", {"rules": list(rules)}),
            ("ClusterRoleBinding", {"roleRef": reference, "subjects": subjects}),
        ):
            self._client.create({"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name}, **content})
        self._names.append(name)

    def remove(self) -> None:
        for name in self._names:
            for kind in ("ClusterRole", "ClusterRoleBinding"):
                self._client.delete(f"{RBAC}/v1", kind, name)


@pytest.fixture
def grants(kube_apiserver: KubeApiserver) -> Iterator[Grants]:
    granted = Grants(kube_apiserver.client)
    yield granted
    granted.remove()


def rule(resource: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": [resource], "verbs": list(verbs)}


@pytest.mark.behaviour("operations/OP75")
def test_a_plugin_waits_for_a_missing_right_and_runs_after_the_grant(
    kube_apiserver: KubeApiserver, distributions: Distributions, start_host: StartHost, grants: Grants
) -> None:
    for name, kind in (("maps", "ConfigMap"), ("secrets", "Secret")):
        distributions.add(name, PLUGIN.format(kind=kind, resource=f"{kind.lower()}s"))
    grants.add("reads-secrets", rule("secrets", "get", "list", "watch", "delete"))
    grants.add("writes-events", {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]})
    host = start_host(
        f"--kubeconfig={kube_apiserver.kubeconfig}",
        *("--context=limited", "--set=host.start_timeout=0s"),
        plugins="maps,secrets",
    )

    def plugin(name: str) -> Any:
        return next(entry for entry in status_of(host)["plugins"] if entry["name"] == name)

    host.line("plugin secrets running")
    missing = host.eventually(lambda: plugin("maps")["missing_rights"], "missing right")
    assert len(missing) == 1
    assert missing[0].startswith('{"apiGroups": [""], "resources": ["configmaps"], "verbs": [')
    assert all(f'"{verb}"' in missing[0] for verb in ("list", "watch", "delete"))
    assert missing[0].endswith("to a ClusterRole")
    line = host.line("missing for maps: run `ctrlhost manifests --plugins=maps,secrets ")
    assert missing[0] in line["rights"]
    waits = host.eventually(
        lambda: (status := plugin("maps")) and "grants its rights" in status["reason"] and status, "command"
    )
    assert waits["state"] == "waiting"
    assert plugin("secrets")["state"] == "running"
    assert plugin("secrets")["missing_rights"] == []
    assert host.get("/readyz")[0] == 200

    grants.add("reads-maps", rule("configmaps", "get", "list", "watch"))
    host.line("plugin maps running")
    # What its sources do not need holds nothing back, but stays named.
    host.eventually(
        lambda: ["delete" in missing_right for missing_right in plugin("maps")["missing_rights"]] == [True],
        "smaller rule",
    )
    assert plugin("maps")["state"] == "running"
    grants.add("deletes-maps", rule("configmaps", "delete"))
    host.eventually(lambda: plugin("maps")["missing_rights"] == [], "last grant")
