"""Changed credentials of a running informer, on a real kube-apiserver that refuses the old ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost.client import Client
from ctrlhost.errors import NotFound, Unauthorized
from ctrlhost.informers import BackoffOptions, InformerFactory, ReflectorOptions
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.control_plane import KubeApiserver

#: Longer than a kube-apiserver caches a valid token.
REFUSED = 60.0


class Account:
    """A service account whose tokens are each bound to a Secret."""

    def __init__(self, admin: Client, namespace: str) -> None:
        self.admin, self.namespace = admin, namespace
        admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        admin.create(self._meta("v1", "ServiceAccount", "reader"))
        role = self._meta("rbac.authorization.k8s.io/v1", "Role", "reader")
        role["rules"] = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
        binding = self._meta("rbac.authorization.k8s.io/v1", "RoleBinding", "reader")
        binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
        binding["subjects"] = [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}]
        admin.create(role)
        admin.create(binding)

    def _meta(self, api_version: str, kind: str, name: str) -> dict[str, Any]:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": self.namespace}}

    def token(self, secret: str) -> str:
        """Return a token that is valid while this Secret exists."""
        stored = self.admin.create(self._meta("v1", "Secret", secret))
        bound = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": stored["metadata"]["uid"]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
        answer = self.admin.transport.request(
            "POST",
            f"/api/v1/namespaces/{self.namespace}/serviceaccounts/reader/token",
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status == 201, answer.body
        token: str = json.loads(answer.body)["status"]["token"]
        return token

    def revoke(self, secret: str) -> None:
        self.admin.delete("v1", "Secret", secret, self.namespace)

    def config_map(self, name: str) -> None:
        self.admin.create(self._meta("v1", "ConfigMap", name))


def kubeconfig(server: KubeApiserver, user: dict[str, Any], file: Path) -> Path:
    """Write a kubeconfig for the server with another user."""
    import yaml

    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"] = [{"name": "reader", "user": user}]
    for context in config["contexts"]:
        context["context"]["user"] = "reader"
    file.write_text(yaml.safe_dump(config))
    return file


PROGRAM = """#!/bin/sh
echo run >> {folder}/runs
printf '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "%s"}}}}' \\
    "$(cat {folder}/token)"
"""


# A real server forgets a token that it has accepted after 10 s.
@pytest.mark.slow
@pytest.mark.parametrize("kept_by", ["file", "program"])
def test_an_informer_continues_with_a_new_token_when_its_old_one_is_revoked(
    kube_apiserver: KubeApiserver, tmp_path: Path, kept_by: str
) -> None:
    account = Account(kube_apiserver.client, f"credentials-{kept_by}")
    first = account.token("first")
    token_file = tmp_path / "token"
    token_file.write_text(first)
    if kept_by == "file":
        user: dict[str, Any] = {"tokenFile": str(token_file)}
    else:
        program = tmp_path / "login"
        program.write_text(PROGRAM.format(folder=tmp_path))
        program.chmod(0o755)
        api = "client.authentication.k8s.io/v1"
        user = {"exec": {"apiVersion": api, "command": str(program), "interactiveMode": "Never"}}
    client = Client.load(kubeconfig(kube_apiserver, user, tmp_path / "kubeconfig"))
    old = Client.load(kubeconfig(kube_apiserver, {"token": first}, tmp_path / "old"))
    options = ReflectorOptions(backoff=BackoffOptions(base=0.05, cap=0.5))
    factory = InformerFactory(client, options=options)
    informer = factory.informer("v1", "ConfigMap", namespaces=[account.namespace])
    with factory:
        assert factory.wait_for_sync(30)
        token_file.write_text(account.token("second"))
        account.revoke("first")

        def refused() -> bool:
            try:
                old.get("v1", "ConfigMap", "kube-root-ca.crt", account.namespace)
            except Unauthorized:
                return True
            except NotFound:
                return False
            return False

        eventually(refused, REFUSED)
        # A new watch and its list need a valid token.
        informer.parts[0].reflector.relist()
        account.config_map("after")
        eventually(lambda: informer.lister.get("after", account.namespace) is not None, 30)
        eventually(lambda: informer.state == "watching")
        assert "Unauthorized" not in informer.parts[0].reflector.status.errors
    if kept_by == "program":
        assert (tmp_path / "runs").read_text().count("run") == 2
    for connection in (client, old):
        connection.close()
