"""What a process has declared to its host."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory
from ctrlhost.informers.namespace_informer import Scope
from ctrlhost.informers.view import View
from ctrlhost.supervisor.channel import Announce, FedScope
from ctrlhost.supervisor.child_requests import ChildRequests


def test_what_a_process_wanted_counts_until_its_end() -> None:
    factory = InformerFactory(Client("http://127.0.0.1:9"))
    owner: Any = SimpleNamespace(name="demo", services=SimpleNamespace(factory=factory))
    unused: Any = None
    requests = ChildRequests(owner, unused, unused, threading.Event())
    requests.take(Announce(FedScope.of(Scope("v1", "Pod"))))
    narrow = factory.informer("v1", "Pod", namespaces=["one"])
    assert isinstance(narrow, View)
    narrow.release()
    requests.close()
    assert not isinstance(factory.informer("v1", "Pod", namespaces=["one"]), View)
    factory.stop()
