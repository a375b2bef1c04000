"""An informer whose connection is cut during writes resumes from its last version."""

from __future__ import annotations

import pytest

import ctrlhost
from ctrlhost.testing.fault_proxy import FaultProxy
from sandbox.tests.clients.comparison import Comparison, Server
from tests.support.objects import config_map
from tests.support.waiting import eventually


@pytest.mark.behaviour("sandbox/EE-10")
def test_a_disconnected_informer_delivers_every_write_once(compare: Comparison) -> None:
    def steps(server: Server) -> None:
        namespace, seen = server.namespace, []
        server.client.create(config_map("before", namespace=namespace))
        with FaultProxy(server.kubeconfig) as proxy:
            client = ctrlhost.Client.load(kubeconfig=str(proxy.kubeconfig))
            factory = ctrlhost.InformerFactory(client)
            configs = factory.informer("v1", "ConfigMap", namespaces=[namespace])
            configs.add_handler(
                on_add=lambda obj, initial: seen.append(("add", obj.name, initial)),
                on_update=lambda old, new: seen.append(("update", new.name, new["data"]["k"])),
                on_delete=lambda obj: seen.append(("delete", obj.name, "")),
            )
            with factory:
                assert factory.wait_for_sync(30)
                eventually(lambda: ("add", "before", True) in seen)
                proxy.cut()
                for name in ("a", "b"):
                    server.client.create(config_map(name, namespace=namespace))
                server.client.patch("v1", "ConfigMap", "before", namespace, {"data": {"k": "w"}})
                server.client.delete("v1", "ConfigMap", "a", namespace)
                proxy.restore()
                eventually(lambda: ("delete", "a", "") in seen, 60, "the informer catches up")
                names = sorted(item.name for item in configs.lister.list(namespace=namespace))
                server.note("cached", [name for name in names if name != "kube-root-ca.crt"])
            client.close()
        # Simultaneous events are merged per object, so compare only the order within each object.
        events = sorted((item for item in seen if item[1] != "kube-root-ca.crt"), key=lambda item: item[1])
        server.note("events", events)

    compare("resume", steps)
    # The informer did not list again: a list would miss the object that was created and deleted.
