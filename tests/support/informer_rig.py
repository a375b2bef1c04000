"""An informer on a stub server, for tests of lists and watches."""

from __future__ import annotations

from typing import Any

from ctrlhost.client import Client
from ctrlhost.informers import BackoffOptions, Informer, InformerFactory, ReflectorOptions
from ctrlhost.request import Request
from ctrlhost.workqueue import WorkQueue
from tests.support.stub_api_server import Answer, Frames, ReceivedRequest, StubApiServer, pod, serve
from tests.support.waiting import eventually

PODS = "/api/v1/pods"
QUICK = BackoffOptions(base=0.001, cap=0.01)


class Rig:
    """An informer of pods and its server."""

    def __init__(
        self, server: StubApiServer, *, resync: float | None = None, clock: Any = None, **options: Any
    ) -> None:
        options = {"watch_list": False, "restorable": False, "backoff": QUICK, **options}
        self.server = server
        self.client = Client(server.url)
        self.errors: list[Exception] = []
        self.factory = InformerFactory(
            self.client,
            resync,
            clock=clock,
            options=ReflectorOptions(**options),
            on_error=lambda _, error: self.errors.append(error),
        )
        self.pods: Informer = self.factory.informer("v1", "Pod")

    def serve(self, lists: list[Answer], watches: list[Answer] | None = None) -> Rig:
        serve(self.server, PODS, lists, watches or [Frames()])
        return self

    def start(self) -> Rig:
        self.factory.start()
        return self

    def synced(self) -> Rig:
        self.factory.start()
        assert self.factory.wait_for_sync(10)
        return self

    def stop(self) -> None:
        self.factory.stop()

    def held(self) -> dict[str, str]:
        """Return the versions in the cache by name."""
        return {pod.name: pod.resource_version for pod in self.pods.lister.list()}

    def holds(self, **pods: int) -> None:
        """Wait until the cache has exactly these pods."""
        wanted = {name: str(version) for name, version in pods.items()}
        eventually(lambda: self.held() == wanted)

    @property
    def lists(self) -> list[ReceivedRequest]:
        return self.server.received(watch=False)

    @property
    def watches(self) -> list[ReceivedRequest]:
        return self.server.received(watch=True)

    def list_versions(self) -> list[str]:
        return [request.query.get("resourceVersion", "") for request in self.lists]

    @property
    def status(self) -> Any:
        return self.pods.parts[0].reflector.status


def synced(factory: InformerFactory) -> None:
    """Start the requested informers and wait for their first lists."""
    factory.start()
    assert factory.wait_for_sync(60)


def keys(queue: WorkQueue) -> list[Request]:
    """Empty a queue and return its keys, sorted."""
    requests = [queue.get(timeout=0) for _ in range(len(queue))]
    queue.done_many(requests)
    return sorted(requests)


def in_namespace(namespace: str, name: str, version: int, **metadata: Any) -> dict[str, Any]:
    """Return a pod in a namespace."""
    body = pod(name, version)
    body["metadata"].update(namespace=namespace, **metadata)
    return body
