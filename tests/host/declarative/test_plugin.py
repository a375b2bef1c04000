"""A `ctrlhost.Plugin` in a host on the sandbox."""

from __future__ import annotations

import ctrlhost
from tests.support.plugin_modules import config_map


def test_a_declared_controller_reconciles_its_objects(ctrlhost_host) -> None:
    plugin = ctrlhost.Plugin()

    @plugin.controller("v1/ConfigMap")
    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        if obj.name == "greeter":
            ctx.client.apply(config_map("greeting", text=f"hello {obj['data']['name']}"))

    host = ctrlhost_host(plugin)
    host.client.create(config_map("greeter", name="world"))
    host.run_until_idle()
    assert host.client.get("v1", "ConfigMap", "greeting", "default")["data"] == {"text": "hello world"}
