"""Hosts with webhooks, and the API servers that call them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually
from tests.support.webhook_host import WebhookHost

if TYPE_CHECKING:
    from tests.support.control_plane import ControlPlane

_serial = itertools.count(1)


@pytest.fixture(scope="module", params=["sandbox", "kube-apiserver"])
def server(request: pytest.FixtureRequest) -> ControlPlane:
    """Return each API server in turn."""
    control_plane: ControlPlane = request.getfixturevalue(
        "sandbox_control_plane" if request.param == "sandbox" else "kube_apiserver"
    )
    return control_plane


@pytest.fixture(scope="module")
def serve(server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., WebhookHost]]:
    """Return a function that starts a host with plugins, whose webhooks the server calls for a namespace of its own."""
    with ExitStack() as running, api_of(server.kubeconfig) as api:

        def start(*plugins: Any, **settings: Any) -> WebhookHost:
            namespace = f"webhooks-{next(_serial)}"
            created = {"metadata": {"name": namespace}}
            eventually(lambda: api.post("/api/v1/namespaces", created).status == 201)
            folder = tmp_path_factory.mktemp("webhooks") / "tls"
            return running.enter_context(WebhookHost(folder, server, namespace, *plugins, **settings))

        yield start
