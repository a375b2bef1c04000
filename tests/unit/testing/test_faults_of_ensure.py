"""Faults hit what `ctx.ensure` sends."""

from __future__ import annotations

from typing import Any

import pytest

import ctrlhost
from ctrlhost import ServerError
from ctrlhost.testing import ManualClock, NotSettled
from tests.support.plugin_modules import config_map

MINE = ctrlhost.For("v1/ConfigMap", label_selector="mine")


def secret(obj: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": obj.name}, "stringData": {"a": "b"}}


def ensuring(*, is_async: bool) -> ctrlhost.Plugin[None]:
    plugin = ctrlhost.Plugin()
    if is_async:

        @plugin.controller(MINE, owns=["v1/Secret"])
        async def reconcile_async(ctx: ctrlhost.AsyncContext, obj: ctrlhost.Object) -> None:
            await ctx.ensure(secret(obj))

    else:

        @plugin.controller(MINE, owns=["v1/Secret"])
        def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
            ctx.ensure(secret(obj))

    return plugin


@pytest.mark.parametrize("is_async", [False, True])
def test_an_apply_of_ensure_is_hit(ctrlhost_host, manual_clock: ManualClock, is_async: bool) -> None:
    host = ctrlhost_host(ensuring(is_async=is_async), clock=manual_clock)
    host.faults.next("apply", ServerError("etcd is slow"))
    host.apply(config_map("ann", labels={"mine": "1"}))
    with pytest.raises(NotSettled, match="etcd is slow"):
        host.settle()
    assert host.faults.left() == 0
    assert host.find("v1/Secret", "ann") is None
    assert host.writes() == []
    host.settle(through="1s")
    assert host.get("v1/Secret", "ann")["data"] == {"a": "Yg=="}
    assert [(write.verb, write.resource, write.name) for write in host.writes()] == [("apply", "secrets", "ann")]
