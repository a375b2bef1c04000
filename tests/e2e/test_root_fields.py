"""A model whose fields stand beside its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ctrlhost
from tests.support.waiting import create_eventually, eventually

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane


class Status(ctrlhost.ModelStatus):
    copies: int = 0


@ctrlhost.resource("roots.example.com/v1")
class Shared(ctrlhost.ModelWithoutSpec[Status], kw_only=True):
    """Data that namespaces share."""

    data: dict[str, str] = {}  # noqa: RUF012 - as authors write it
    namespaces: list[str]


@pytest.mark.behaviour("findings3/NA30")
def test_a_controller_reconciles_objects_without_a_spec(
    control_plane: ControlPlane, namespace: str, ctrlhost_host: Any
) -> None:
    (version,) = ctrlhost.crd_of(Shared)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    assert list(schema["properties"]) == ["status", "data", "namespaces"]
    assert schema["required"] == ["namespaces"]
    plugin = ctrlhost.Plugin()

    @plugin.controller(Shared)
    def share(ctx: ctrlhost.Context[Shared, None], shared: Shared) -> None:
        ctx.status.set(copies=len(shared.namespaces) * len(shared.data))
        ctx.status.condition("Ready", True, "Shared")

    host = ctrlhost_host(plugin, server=control_plane, namespaces=[namespace])
    metadata = {"name": "a", "namespace": namespace}
    shared = {"apiVersion": "roots.example.com/v1", "kind": "Shared", "metadata": metadata, "namespaces": ["x", "y"]}
    create_eventually(control_plane.client, {**shared, "data": {"k": "v"}})
    written = eventually(lambda: (obj := host.get(Shared, "a", namespace)).status and obj)
    assert (written.data, written.namespaces) == ({"k": "v"}, ["x", "y"])
    assert written.status.copies == 2
    assert written.status.is_true("Ready")
    assert written.status.observedGeneration == 1
