"""Both servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.admission_rig import Servers
from tests.support.control_plane import KubeApiserver, SandboxControlPlane
from tests.support.rbac_rig import api_of


@pytest.fixture(scope="module")
def servers(sandbox_control_plane: SandboxControlPlane, kube_apiserver: KubeApiserver) -> Iterator[Servers]:
    """Return both servers with a namespace for the tests of a file."""
    with api_of(sandbox_control_plane.kubeconfig) as ours, api_of(kube_apiserver.kubeconfig) as theirs:
        yield Servers.start(ours, theirs)
