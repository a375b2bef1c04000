"""`settle` while namespaces with objects in them are selected by a label."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request, ServerError
from tests.support.control_plane import KubeApiserver
from tests.support.plugin_modules import config_map
from tests.support.reconcilers import controller

pytestmark = pytest.mark.behaviour("findings3/NB10")

LABEL = "settle-selects"


class Selection:
    """A host of the namespaces that have a label."""

    def __init__(self, start_host: Any, server: Any) -> None:
        #: The runs by namespace that found the object.
        self.runs = Counter[str]()
        source = For("v1", "ConfigMap", label_selector="mine")
        self.host = start_host(controller(self._reconcile, source), server=server, namespaces=(f"label:{LABEL}",))

    def _reconcile(self, ctx: ctrlhost.Context, request: Request) -> None:
        if ctx.get(request) is not None:
            self.runs[request.namespace] += 1

    def create(self, name: str) -> str:
        """Create a namespace with an object, and return its name on the server."""
        name = f"{self.host.namespace}-{name}"
        self.host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.host.client.create(config_map("x", name, labels={"mine": "1"}))
        return name

    def select(self, name: str, *, selected: bool = True) -> None:
        """Set the label of the namespace, or remove it."""
        self.host.patch("v1/Namespace", name, {"metadata": {"labels": {LABEL: "yes" if selected else None}}})


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_object_in_a_new_namespace_is_reconciled_before_settle_returns(
    kube_apiserver: KubeApiserver, ctrlhost_host: Any
) -> None:
    selection = Selection(ctrlhost_host, kube_apiserver)
    names = [selection.create(str(number)) for number in range(20)]
    for _ in range(10):
        for name in names:
            before = selection.runs[name]
            selection.select(name)
            selection.host.settle()
            assert selection.runs[name] == before + 1
            # The next round has this to do, too.
            selection.select(name, selected=False)


@pytest.mark.parametrize("server", ["sandbox", "kube-apiserver"])
def test_a_first_list_that_fails_is_awaited(server: str, request: pytest.FixtureRequest, ctrlhost_host: Any) -> None:
    selection = Selection(ctrlhost_host, None if server == "sandbox" else request.getfixturevalue("kube_apiserver"))
    name = selection.create("late")
    for runs in (1, 2):
        # Neither as a stream nor in pages: the informer backs off for longer than a real server must be quiet.
        for verb in ("watch", "list"):
            selection.host.faults.next(verb, ServerError("not now"), resource="configmaps")
        selection.select(name)
        selection.host.settle()
        assert selection.runs[name] == runs
        assert selection.host.faults.left() == 0
        selection.select(name, selected=False)
        selection.host.settle()
