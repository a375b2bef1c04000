"""The Python of the page of the sandbox."""

from __future__ import annotations

import kubernetes
import pytest
from ctrlhost_sandbox import Options, Sandbox

import ctrlhost


def test_a_sandbox_in_python() -> None:
    with Sandbox(controllers=["gc", "namespace", "workloads"]) as sandbox:
        client = ctrlhost.Client.load(kubeconfig=sandbox.kubeconfig)
        assert client.get("v1", "Namespace", "default")["metadata"]["name"] == "default"


def test_a_feature_gate() -> None:
    with Sandbox(options=Options(feature_gates={"ShardedListAndWatch": True})) as sandbox:
        client = ctrlhost.Client.load(kubeconfig=sandbox.kubeconfig)
        half = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
        namespaces = kubernetes.client.CoreV1Api(client.official()).list_namespace(shard_selector=half)
        assert namespaces.metadata.shard_info.selector == half


def test_credentials_of_others() -> None:
    with Sandbox(rbac=True) as sandbox:
        ann = sandbox.kubeconfig_for(user="ann", groups=["devs"])
        pod = sandbox.kubeconfig_for(service_account="default/default")
        for path, name in ((ann, "ann"), (pod, "system:serviceaccount:default:default")):
            with pytest.raises(ctrlhost.Forbidden, match=f'User "{name}"'):
                ctrlhost.Client.load(kubeconfig=path).get("v1", "Secret", "any", "default")
