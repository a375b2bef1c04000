"""`ctx.event` of a `ctrlhost.Plugin`."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost.testing import HostUnderTest, ManualClock
from tests.support.memcached import Cache, Memcached, new_plugin


def occurrences(host: HostUnderTest, reason: str) -> int:
    """Return how often the events of this reason were recorded."""
    host.run_until_idle()
    # The rest of a series is written when the host ends.
    assert host.host.events.flush(30)
    events = [event for event in host.events() if event["reason"] == reason]
    return sum(event.get("series", {}).get("count", 1) for event in events)


@pytest.mark.behaviour("authoring/AS10")
def test_an_event_is_recorded_once_for_each_generation(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    plugin, recorded = new_plugin("memcached.yaml"), []

    @plugin.controller(Memcached)
    def reconcile(ctx: ctrlhost.Context[Memcached, None], mc: Memcached) -> None:
        recorded.append(ctx.event("TooSmall", "one server only", warning=True, once=True))
        assert ctx.event("Reconciled", "again")

    cache = Cache(ctrlhost_host(plugin, clock=manual_clock))
    cache.create()
    for _ in range(49):
        cache.run()
    assert cache.counts.runs == 50
    assert recorded == [True, *[False] * 49]
    assert occurrences(cache.host, "TooSmall") == 1
    assert occurrences(cache.host, "Reconciled") == 50
    cache.resize(2)
    assert occurrences(cache.host, "TooSmall") == 2
    (event,) = [event for event in cache.host.events() if event["reason"] == "TooSmall"]
    assert (event["type"], event["note"], event["action"]) == ("Warning", "one server only", "TooSmall")
    assert event["regarding"]["uid"] == cache.get()["metadata"]["uid"]


@pytest.mark.behaviour("findings3/NA17")
@pytest.mark.parametrize("reason", ["not a reason!", "", "1st", "Trailing:", "A" * 129, "Zeile\n"])
def test_a_reason_that_is_not_one_word_is_refused(ctrlhost_host: Any, reason: str) -> None:
    plugin, raised = new_plugin("memcached.yaml"), []

    @plugin.controller(Memcached)
    def reconcile(ctx: ctrlhost.Context[Memcached, None], mc: Memcached) -> None:
        with pytest.raises(ValueError, match=r"^invalid reason .* of an event: it must be one word") as error:
            ctx.event(reason, "a message")
        raised.append(error.value)

    cache = Cache(ctrlhost_host(plugin))
    cache.create()
    cache.host.run_until_idle()
    assert raised
    assert cache.host.events() == []


@pytest.mark.parametrize("is_async", [False, True])
def test_events_may_be_about_other_objects_and_about_one_that_is_gone(ctrlhost_host: Any, is_async: bool) -> None:
    plugin = new_plugin("memcached.yaml")

    def record(ctx: Any, mc: Memcached | None) -> None:
        if mc is None:
            ctx.event("Gone", "it is gone", action="Forget")
        else:
            ctx.event("Model", "a model", about=mc)
            ctx.event("Mapping", "a mapping", about={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})

    async def record_async(ctx: ctrlhost.AsyncContext[Memcached, None], mc: Memcached | None) -> None:
        record(ctx, mc)

    if is_async:
        plugin.controller(Memcached, gone=True)(record_async)
    else:
        plugin.controller(Memcached, gone=True)(record)
    cache = Cache(ctrlhost_host(plugin))
    cache.create()
    uid = cache.get()["metadata"]["uid"]
    cache.delete()
    cache.host.run_until_idle()
    events = {event["reason"]: event for event in cache.host.events()}
    assert events["Model"]["regarding"]["uid"] == uid
    assert events["Mapping"]["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert events["Gone"]["regarding"]["name"] == "cache"
    assert events["Gone"]["regarding"].get("uid") is None
    assert events["Gone"]["metadata"]["namespace"] == "default"
    assert (events["Gone"]["type"], events["Gone"]["action"]) == ("Normal", "Forget")


@pytest.mark.behaviour("authoring/AS10")
def test_an_event_about_a_key_is_recorded_once_for_each_absence(ctrlhost_host: Any, manual_clock: ManualClock) -> None:
    plugin = new_plugin("memcached.yaml")

    @plugin.controller(Memcached, gone=True)
    def reconcile(ctx: ctrlhost.Context[Memcached, None], mc: Memcached | None) -> None:
        if mc is None:
            for _ in range(2):
                ctx.event("Gone", "it is gone", once=True)

    cache = Cache(ctrlhost_host(plugin, clock=manual_clock))
    for count in (1, 2):
        cache.create()
        cache.delete()
        cache.host.run_until_idle()
        assert occurrences(cache.host, "Gone") == count
