"""A complete small plugin, quoted in the documentation."""

from __future__ import annotations

import ctrlhost


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    plugin.add_controller("greeter", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="greet=yes"))


def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
    config_map = ctx.get(request)
    if config_map is None:
        return None
    ctx.client.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{request.name}-greeting", "namespace": request.namespace},
            "data": {"greeting": f"hello {config_map['data']['name']}"},
        },
        owner=config_map,
    )
