"""The comparison of both servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.compared import Compare, compare
from tests.support.control_plane import KubeApiserver, SandboxControlPlane
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def compare_answers(sandbox_control_plane: SandboxControlPlane, kube_apiserver: KubeApiserver) -> Iterator[Compare]:
    """Create an object on both servers, and return their equal answer."""
    with api_of(sandbox_control_plane.kubeconfig) as ours, api_of(kube_apiserver.kubeconfig) as theirs:
        eventually(lambda: theirs.get("/api/v1/namespaces/default").status == 200)
        yield compare(ours, theirs)
