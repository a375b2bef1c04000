"""`ctrlhost check` on a real kube-apiserver: the CRDs of the bundled plugins, and a deprecated API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost.errors import NotFound
from ctrlhost.supervisor.loader import PluginManager
from tests.host.conftest import ctrlhost, distributions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.host.conftest import Distributions
    from tests.support.control_plane import KubeApiserver

__all__ = ["ctrlhost", "distributions"]

BUNDLED = ("bitcoin", "hostname")

ENDPOINTS = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", lambda ctx, request: None, ctrlhost.For("v1", "Endpoints"))
"""


@pytest.fixture
def installed(kube_apiserver: KubeApiserver) -> Iterator[None]:
    crds = [crd for name in BUNDLED for crd in PluginManager().load(name).crds()]
    for crd in crds:
        kube_apiserver.client.apply(crd)
    yield
    for crd in crds:
        try:
            kube_apiserver.client.delete(crd["apiVersion"], crd["kind"], crd["metadata"]["name"])
        except NotFound:
            continue


@pytest.mark.behaviour("authoring/AK1")
@pytest.mark.behaviour("authoring/AK4")
@pytest.mark.usefixtures("installed")
def test_crds_equal_what_the_server_made_of_them_and_its_warnings_are_shown(
    kube_apiserver: KubeApiserver, distributions: Distributions, ctrlhost: Any
) -> None:
    distributions.add("endpoints", ENDPOINTS)
    kubeconfig = f"--kubeconfig={kube_apiserver.kubeconfig}"
    good = ctrlhost("check", "-v", f"--plugins={','.join(BUNDLED)}", kubeconfig, "--strict")
    assert good.returncode == 0, good.stdout
    assert all(line.startswith("ok ") for line in good.stdout.splitlines())
    assert sum(line.endswith(" is installed") for line in good.stdout.splitlines()) >= len(BUNDLED)
    warned = ctrlhost("check", "--plugins=endpoints", kubeconfig)
    assert warned.returncode == 0
    (line,) = [line for line in warned.stdout.splitlines() if line.startswith("warning ")]
    assert line.startswith("warning endpoints api: Endpoints (v1): v1 Endpoints is deprecated in v1.33+; ")
