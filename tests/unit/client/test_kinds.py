"""The kinds that a server serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ctrlhost import AsyncClient, Client, TransportError
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.behaviour("kopf/KO21")

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ropes.kinds.example.com"},
    "spec": {
        "group": "kinds.example.com",
        "scope": "Cluster",
        "names": {"kind": "Rope", "plural": "ropes", "singular": "rope", "shortNames": ["rp"], "categories": ["all"]},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {"status": {}},
            }
            for name in ("v1beta1", "v1")
        ],
    },
}


def test_kinds_have_all_their_names(control_plane: ControlPlane) -> None:
    control_plane.client.apply(CRD)

    def ropes() -> list[object]:
        return [kind for kind in control_plane.client.kinds() if kind.plural == "ropes"]

    eventually(lambda: len(ropes()) == 2)
    kinds = {(kind.api_version, kind.plural): kind for kind in control_plane.client.kinds()}
    rope = kinds["kinds.example.com/v1", "ropes"]
    assert (rope.kind, rope.singular, rope.short_names, rope.categories) == ("Rope", "rope", ("rp",), ("all",))
    assert (rope.namespaced, rope.preferred, rope.subresources) == (False, True, ("status",))
    assert not kinds["kinds.example.com/v1beta1", "ropes"].preferred
    pods = kinds["v1", "pods"]
    assert (pods.group, pods.kind, pods.namespaced, pods.short_names) == ("", "Pod", True, ("po",))
    assert {"list", "watch", "patch"} <= set(pods.verbs)
    assert kinds["apps/v1", "deployments"].subresources


async def number_of_kinds(client: Client) -> int:
    return len(await AsyncClient(client).kinds())


def test_coroutines_ask_for_kinds(sandbox: object) -> None:
    import asyncio

    client = Client.load(sandbox.kubeconfig)  # type: ignore[attr-defined]
    assert asyncio.run(number_of_kinds(client)) == len(client.kinds())


def test_a_server_that_does_not_list_its_kinds_is_refused(stub: object) -> None:
    with pytest.raises(TransportError, match=r"does not list its kinds; Kubernetes 1\.27 does"):
        Client.over(stub).kinds()  # type: ignore[arg-type]


@pytest.fixture
def stub() -> object:
    """A transport of a server before aggregated discovery."""
    from ctrlhost.transport.interface import HttpRequest, Response, Transport

    class Old(Transport):
        def send(self, request: HttpRequest) -> Response:
            return Response(200, {}, b'{"kind": "APIVersions", "versions": ["v1"]}')

        def open(self, request: HttpRequest) -> object:
            raise NotImplementedError

    return Old()
