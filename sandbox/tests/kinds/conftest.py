"""The comparison of both servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.compared import Compare, compare
from tests.support.control_plane import KubeApiserver, SandboxControlPlane
from tests.support.http_client import Api
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def both(sandbox_control_plane: SandboxControlPlane, kube_apiserver: KubeApiserver) -> Iterator[tuple[Api, Api]]:
    """Return clients of the sandbox and of the real server."""
    with api_of(sandbox_control_plane.kubeconfig) as ours, api_of(kube_apiserver.kubeconfig) as theirs:
        yield ours, theirs


@pytest.fixture(scope="module")
def compare_answers(both: tuple[Api, Api]) -> Compare:
    """Create an object on both servers, and return their equal answer."""
    ours, theirs = both
    eventually(lambda: theirs.get("/api/v1/namespaces/default").status == 200)
    return compare(ours, theirs)
