"""The plugin that must not feel what its neighbour does: it logs the number in each version of a ConfigMap."""

import ctrlhost


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("all", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="good=yes"))


def reconcile(ctx, request):
    config_map = ctx.get(request)
    if config_map is not None:
        ctx.log.info("good saw %s %s", request.name, config_map["data"]["number"])
