"""The plugin that must not feel what its neighbour does: it logs the number in each version of a ConfigMap, twice."""

import ctrlhost

SOURCE = ctrlhost.For("v1", "ConfigMap", label_selector="good=yes")


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("threads", reconcile, SOURCE)
    plugin.add_controller("loop", reconcile_on_loop, SOURCE)
    plugin.add_page("/", page)
    plugin.add_health_check("well", lambda: None)


def reconcile(ctx, request):
    config_map = ctx.get(request)
    if config_map is not None:
        ctx.log.info("good saw %s %s on its thread", request.name, config_map["data"]["number"])


async def reconcile_on_loop(ctx, request):
    config_map = ctx.get(request)
    if config_map is not None:
        ctx.log.info("good saw %s %s on its loop", request.name, config_map["data"]["number"])


async def page(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"good"})
