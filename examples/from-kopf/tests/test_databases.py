"""Each function of the plugin that the page for users of kopf quotes."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from databases import Database, Server, is_open, plugin, reconcile

import ctrlhost
from ctrlhost.testing import HostUnderTest, ManualClock, StartHost

KOPF = "kopf.zalando.org/KopfFinalizerMarker"


def database(name: str = "one", **metadata: Any) -> dict[str, Any]:
    spec = {"user": "ann", "size": metadata.pop("size", 1)}
    kind = {"apiVersion": "example.com/v1", "kind": "Database"}
    return {**kind, "metadata": {"name": name, **metadata}, "spec": spec}


@pytest.fixture
def host(ctrlhost_host: StartHost, manual_clock: ManualClock) -> HostUnderTest:
    return ctrlhost_host(plugin, clock=manual_clock, least_privilege=True)


def state(host: HostUnderTest) -> Any:
    (runtime,) = host.host.plugins
    assert runtime.context is not None
    return runtime.context.state


def ready(host: HostUnderTest, name: str = "one") -> tuple[bool, str] | None:
    status = host.get(Database, name).status
    condition = status and status.condition("Ready")
    return (condition and (condition.status == "True", condition.reason)) or None


def test_a_database_gets_its_user_and_loses_it_with_the_finalizers(host: HostUnderTest) -> None:
    host.apply(database(finalizers=[KOPF]))
    host.settle()
    assert state(host).users == {"ann"}
    assert host.get("v1/Secret", "one-login").is_controlled_by(host.get(Database, "one"))
    assert ready(host) == (True, "UserMade")
    assert host.get(Database, "one").metadata.finalizers == ["example.com/user"]
    host.delete(Database, "one")
    host.settle()
    assert host.find(Database, "one") is None
    assert state(host).users == set()


def test_the_user_is_dropped_again_where_the_host_ended_before_the_removal(
    ctrlhost_host: StartHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[str] = []

    class Users(set[str]):
        def discard(self, user: str) -> None:
            dropped.append(user)
            super().discard(user)

    class Recorded(Server):
        def __init__(self) -> None:
            super().__init__()
            self.users = Users()

    monkeypatch.setattr("databases.Server", Recorded)
    host = ctrlhost_host(plugin)
    host.apply(database())
    host.settle()
    host.faults.next("patch", ctrlhost.TransportError("connection reset"), resource="databases", times=1000)
    host.delete(Database, "one")
    host.wait_for(lambda: not state(host).users)
    host.stop()
    again = ctrlhost_host(plugin, server=host.server)
    again.settle()
    assert again.find(Database, "one") is None
    assert dropped == ["ann", "ann"]


@pytest.mark.parametrize("labels", [{}, {"tier": "test"}], ids=["selected", "not selected"])
def test_what_kopf_still_deletes_is_released(host: HostUnderTest, labels: dict[str, str]) -> None:
    host.apply(database(labels=labels, finalizers=[KOPF]))
    host.wait_for(lambda: KOPF not in host.get(Database, "one").metadata.finalizers)
    host.settle()
    assert (ready(host) is None) == bool(labels)
    host.delete(Database, "one")
    host.settle()
    assert host.find(Database, "one") is None


def test_errors_retries_indexes_and_periods(host: HostUnderTest) -> None:
    host.apply(database(size=10))
    host.settle(allow=("terminal",))
    (event,) = [entry for entry in host.events() if entry["reason"] == "TooLarge"]
    assert event["type"] == "Warning"
    host.patch(Database, "one", {"spec": {"size": 9}})
    host.settle()
    host.apply(database("two"))
    host.settle()
    assert ready(host, "two") == (False, "UserTaken")
    state(host).open = False
    runs = len(host.runs("databases/database", "one"))
    host.advance("1h6m")
    assert len(host.runs("databases/database", "one")) > runs
    state(host).open = True
    host.settle(through="30s")


def test_the_health_check_fails_without_a_connection(host: HostUnderTest) -> None:
    (runtime,) = host.host.plugins
    assert runtime.context is not None
    is_open(runtime.context)
    state(host).open = False
    with pytest.raises(RuntimeError, match="closed"):
        is_open(runtime.context)


def test_a_watcher_is_called_for_data_and_once_gone(host: HostUnderTest, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def lines() -> list[str]:
        texts = [record.getMessage() for record in caplog.records]
        return [text.partition("/")[2] for text in texts if text.startswith(f"{host.namespace}/c ")]

    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    host.apply(config_map)
    host.settle()
    host.patch("v1/ConfigMap", "c", {"metadata": {"labels": {"a": "b"}}})
    host.settle()
    assert lines() == ["c is there"]
    host.patch("v1/ConfigMap", "c", {"data": {"a": "2"}})
    host.settle()
    host.delete("v1/ConfigMap", "c")
    host.settle()
    assert lines() == ["c is there"] * 2 + ["c is gone"]
    host.advance("30s")
    assert any("0 users" in record.getMessage() for record in caplog.records)


def test_a_reconciler_is_a_function_that_a_unit_test_can_call() -> None:
    assert isinstance(reconcile, ctrlhost.Controller)
