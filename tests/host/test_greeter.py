"""The plugin of the documentation and its tests, quoted there."""

from __future__ import annotations

from ctrlhost import TooManyRequests
from ctrlhost.testing import ManualClock
from tests.host import greeter


def config_map(name: str, *, labels: dict[str, str], data: dict[str, str]) -> dict:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_everyone_is_greeted(ctrlhost_host, manual_clock: ManualClock) -> None:
    host = ctrlhost_host(greeter, clock=manual_clock)
    host.client.create(config_map("ann", labels={"greet": "yes"}, data={"name": "Ann"}))
    host.faults.next("apply", TooManyRequests(retry_after=3))
    host.run_until_idle()
    manual_clock.advance(3)
    host.run_until_idle()
    assert host.client.get("v1", "ConfigMap", "ann-greeting", "default")["data"] == {"greeting": "hello Ann"}


def test_the_greeting_is_owned_by_the_greeted_object(ctrlhost_host) -> None:
    host = ctrlhost_host(greeter)
    ann = host.client.create(config_map("ann", labels={"greet": "yes"}, data={"name": "Ann"}))
    host.run_until_idle()
    greeting = host.client.get("v1", "ConfigMap", "ann-greeting", "default")
    assert [owner_reference["uid"] for owner_reference in greeting["metadata"]["ownerReferences"]] == [
        ann["metadata"]["uid"]
    ]


def test_objects_without_the_label_are_not_greeted(ctrlhost_host) -> None:
    host = ctrlhost_host(greeter)
    host.client.create(config_map("bob", labels={"greet": "no"}, data={"name": "Bob"}))
    host.run_until_idle()
    assert host.client.find("v1", "ConfigMap", "bob-greeting", "default") is None


def test_a_failed_greeting_is_retried_and_counted(ctrlhost_host, manual_clock: ManualClock) -> None:
    host = ctrlhost_host(greeter, clock=manual_clock)
    host.client.create(config_map("eve", labels={"greet": "yes"}, data={"nick": "Eve"}))
    host.run_until_idle()
    status = host.controllers["greeter/greeter"].status()
    assert (status.runs, status.errors) == (1, 1)
    assert "KeyError" in (status.last_error or "")
    host.client.patch("v1", "ConfigMap", "eve", "default", {"data": {"name": "Eve"}})
    host.run_until_idle()
    assert host.client.get("v1", "ConfigMap", "eve-greeting", "default")["data"] == {"greeting": "hello Eve"}
