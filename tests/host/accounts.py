"""Service accounts with chosen rights, on a real kube-apiserver."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.control_plane import KubeApiserver

_accounts = itertools.count(1)


class Account:
    """A service account without permissions, and its kubeconfig."""

    def __init__(self, server: KubeApiserver, folder: Path) -> None:
        self.client = server.client
        self.name = f"host-{next(_accounts)}"
        self.namespace = "default"
        metadata = {"name": self.name, "namespace": self.namespace}
        self.client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.client.transport.request(
            "POST",
            f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token",
            body=json.dumps(request).encode(),
            headers={"Content-Type": "application/json"},
        )
        config = yaml.safe_load(server.kubeconfig.read_text())
        for user in config["users"]:
            user["user"] = {"token": json.loads(answer.body)["status"]["token"]}
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def grant(self, manifests: list[dict[str, Any]]) -> None:
        for manifest in manifests:
            if manifest["apiVersion"].startswith("rbac.") or manifest["kind"] == "CustomResourceDefinition":
                self.client.apply(manifest)
