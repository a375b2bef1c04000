"""Published CRDs and their example objects, on the sandbox and on a real kube-apiserver: the verdicts are equal.

`make conformance` runs this file. It is not among the tests that pytest finds, since it downloads 150 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.differential.classes import DifferenceClass, difference, known
from tests.differential.servers import Request, Servers
from tests.support.control_plane import KubeApiserver, SandboxControlPlane
from tests.support.go_modules import Published, published
from tests.support.http_client import JSON
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MODULES = published()


@pytest.fixture(scope="module")
def servers(sandbox_control_plane: SandboxControlPlane, kube_apiserver: KubeApiserver) -> Iterator[Servers]:
    """Return both servers."""
    with api_of(sandbox_control_plane.kubeconfig) as ours, api_of(kube_apiserver.kubeconfig) as theirs:
        pair = Servers(ours, theirs)
        yield pair
        pair.close()


class Verdicts:
    """The answers to creations, and where they differ."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.codes: list[int] = []
        self.unknown: list[tuple[DifferenceClass, str]] = []
        self._known = known()

    def create(self, kind: str, path: str, body: dict[str, Any], **query: str) -> bool:
        """Create an object on both servers; return whether both have accepted it."""
        request = Request("create", kind, "POST", path, query, JSON, body)
        ours, theirs = self._servers.outcomes(request)
        result = difference(request, ours, theirs)
        if result is not None and not any(entry.covers(result) for entry in self._known):
            self.unknown.append((result, str(body["metadata"].get("name"))))
        self.codes.append(theirs.code)
        return ours.code == theirs.code == 201


@pytest.mark.behaviour("findings/FS7")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("module", MODULES, ids=[module.name for module in MODULES])
def test_published_crds_and_their_examples_get_the_real_verdicts(module: Published, servers: Servers) -> None:
    verdicts = Verdicts(servers)
    crds = module.definitions()
    assert crds
    accepted = [crd for crd in crds if verdicts.create("CustomResourceDefinition", CRDS, crd)]
    try:
        served = {}
        for crd in accepted:
            served |= _served(crd)
        for path in served.values():
            eventually(lambda path=path: all(answer.status == 200 for answer in servers.get(path)), 60, path)
        for example in module.instances():
            path = served.get((example["apiVersion"], example["kind"]))
            if path and isinstance(example.get("metadata"), dict):
                example["metadata"].pop("namespace", None)
                verdicts.create(example["kind"], path, example, dryRun="All")
    finally:
        for crd in accepted:
            for api in servers.apis:
                api.delete(f"{CRDS}/{crd['metadata']['name']}")
        for crd in accepted:
            assert all(api.gone(f"{CRDS}/{crd['metadata']['name']}") for api in servers.apis)
    assert verdicts.unknown == []
    assert verdicts.codes.count(201) >= len(crds) * 0.9


def _served(crd: dict[str, Any]) -> dict[tuple[str, str], str]:
    """Return the path of each served version, by its apiVersion and kind."""
    spec = crd["spec"]
    where = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    return {
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"]): (
            f"/apis/{spec['group']}/{version['name']}/{where}{spec['names']['plural']}"
        )
        for version in spec["versions"]
        if version["served"]
    }


def test_a_module_with_another_sum_is_refused() -> None:
    from dataclasses import replace

    with pytest.raises(AssertionError, match="has the sum"):
        _ = replace(MODULES[0], sum="h1:other").directory
