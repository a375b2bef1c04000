"""Run the tests of the examples on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ctrlhost.testing import HostUnderTest, StartHost


@pytest.fixture(params=["sandbox", "kube-apiserver"])
def ctrlhost_host(request: pytest.FixtureRequest, ctrlhost_host: StartHost) -> StartHost:
    """Start hosts as usual, by default on each of the two servers."""
    server = None if request.param == "sandbox" else request.getfixturevalue("kube_apiserver")

    def start_host(*plugins: object, **options: Any) -> HostUnderTest:
        return ctrlhost_host(*plugins, **{"server": server, **options})

    return start_host
