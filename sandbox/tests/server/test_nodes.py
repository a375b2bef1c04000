"""The node of the sandbox: there is one only for controllers that need it."""

from __future__ import annotations

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.http_client import Api, names


@pytest.mark.behaviour("findings3/NS9")
@pytest.mark.parametrize(
    ("controllers", "nodes"),
    [
        (None, []),
        ((), []),
        (("deployment", "replicaset", "service"), []),
        (("workloads",), ["sandbox-node"]),
        (("scheduler",), ["sandbox-node"]),
        (("kubelet",), ["sandbox-node"]),
        (("daemonset",), ["sandbox-node"]),
    ],
    ids=str,
)
def test_there_is_a_node_only_for_pods_that_are_placed(controllers: tuple[str, ...] | None, nodes: list[str]) -> None:
    with Sandbox(controllers=controllers) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        assert names(api.get("/api/v1/nodes")) == nodes
