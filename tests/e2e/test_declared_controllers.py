"""What wakes a controller of `ctrlhost.Plugin`, on both servers: they count generations and managers by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Client, For, Object, Owns
from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from tests.support.declared import declared
from tests.support.waiting import eventually

Change = Callable[[Client, str], Any]


def cron_job(namespace: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    spec = {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    metadata = {"name": "nightly", "namespace": namespace, "finalizers": ["example.com/keep"]}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}


def patch(kind: str, name: str, change: dict[str, Any], subresource: str | None = None) -> Change:
    api_version = "batch/v1" if kind == "CronJob" else "v1"
    return lambda client, namespace: client.patch(api_version, kind, name, namespace, change, subresource=subresource)


class Recorded:
    """A host with one controller, which counts its runs and applies a ConfigMap that its CronJob owns."""

    def __init__(self, control_plane: Any, namespace: str) -> None:
        self.runs: list[str] = []
        plugin = declared()

        @plugin.controller(
            For("batch/v1/CronJob", namespaces=[namespace]),
            owns=[Owns("v1/ConfigMap", namespaces=[namespace])],
            gone=True,
        )
        def reconcile(ctx: ctrlhost.Context, obj: Object | None) -> None:
            if obj is not None and obj.deletion_timestamp is None:
                schedule = {"schedule": obj["spec"]["schedule"]}
                copy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy"}, "data": schedule}
                ctx.client.apply(copy, owner=obj)
            self.runs.append("gone" if obj is None else "deleted" if obj.deletion_timestamp else "there")

        self.client = Client.load(str(control_plane.kubeconfig))
        self.host = Host(HostSettings(listen=""), (plugin,), client=self.client)
        self.host.start()
        assert self.host.wait_ready(30)

    def caught_up(self, client: Client, namespace: str) -> None:
        """Wait until the informers have seen what the test wrote, and nothing is queued."""
        (controller,) = self.host.plugins[0].controllers
        kinds = {"CronJob": ("batch/v1", "nightly"), "ConfigMap": ("v1", "copy")}
        for informer in controller.informers:

            def seen(informer: Any = informer) -> bool:
                # The controller may write meanwhile.
                api_version, name = kinds[informer.kind]
                obj = client.find(api_version, informer.kind, name, namespace)
                cached = informer.lister.get(name, namespace)
                versions = [cached.resource_version if cached else None, obj and obj["metadata"]["resourceVersion"]]
                return versions[0] == versions[1] and not informer.pending

            eventually(seen)
        eventually(lambda: controller.busy() is None)


@pytest.fixture
def recorded(control_plane, namespace: str) -> Iterator[Recorded]:
    run = Recorded(control_plane, namespace)
    yield run
    assert run.host.stop(10)
    run.client.close()


@pytest.mark.behaviour("authoring/AU11")
@pytest.mark.behaviour("authoring/AU12")
def test_what_wakes_a_declared_controller(client: Client, namespace: str, recorded: Recorded) -> None:
    client.create(cron_job(namespace))
    eventually(lambda: client.find("v1", "ConfigMap", "copy", namespace))
    recorded.caught_up(client, namespace)
    assert recorded.runs == ["there"]
    wakes: list[tuple[Change, int]] = [
        (patch("CronJob", "nightly", {"status": {"lastScheduleTime": "2026-01-01T03:00:00Z"}}, "status"), 0),
        (patch("CronJob", "nightly", {"metadata": {"labels": {"a": "1"}}}), 1),
        (patch("CronJob", "nightly", {"metadata": {"annotations": {"a": "1"}}}), 1),
        (patch("CronJob", "nightly", {"metadata": {"finalizers": ["example.com/keep", "example.com/more"]}}), 1),
        # The apply that follows wakes nobody, and the foreign change of the owned object does.
        (patch("CronJob", "nightly", {"spec": {"schedule": "0 4 * * *"}}), 1),
        (patch("ConfigMap", "copy", {"data": {"foreign": "1"}}), 1),
    ]
    for change, runs in wakes:
        before = len(recorded.runs)
        change(client, namespace)
        recorded.caught_up(client, namespace)
        eventually(lambda wanted=before + runs: len(recorded.runs) >= wanted)
        recorded.caught_up(client, namespace)
        assert len(recorded.runs) == before + runs
    before = len(recorded.runs)
    client.delete("batch/v1", "CronJob", "nightly", namespace)
    eventually(lambda: recorded.runs[before:] == ["deleted"])
    patch("CronJob", "nightly", {"metadata": {"finalizers": None}})(client, namespace)
    # Once more where a garbage collector deletes the owned object.
    eventually(lambda: recorded.runs[-1] == "gone")
    assert list(dict.fromkeys(recorded.runs[before:])) == ["deleted", "gone"]
