"""Sources of plugins for the tests to install."""

from __future__ import annotations

from typing import Any

from tests.support.plugin_modules import config_map

#: Copies each ConfigMap labelled greet=yes to NAME-greeting.
GREETER = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("greeter", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="greet=yes"))

    @ctrlhost.hookimpl
    def ctrlhost_permissions():
        return [ctrlhost.Permission("", ["configmaps"], ["create", "get"])]

    def reconcile(ctx, request):
        config_map = ctx.get(request)
        if config_map is None:
            return None
        ctx.log.info("greeting %s", request.name)
        greeting = {"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": f"{request.name}-greeting", "namespace": request.namespace},
                    "data": {"greeting": f"hello {config_map['data']['name']}"}}
        if ctx.client.find("v1", "ConfigMap", f"{request.name}-greeting", request.namespace) is None:
            ctx.client.create(greeting)
"""

#: Defines the kind `Widget` and logs each one.
WIDGETS = """
    import ctrlhost

    GROUP = "host.test"

    @ctrlhost.hookimpl
    def ctrlhost_crds():
        return [{
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced",
                     "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": {
                                       "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]},
        }]

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("widgets", reconcile, ctrlhost.For(f"{GROUP}/v1", "Widget"))

    def reconcile(ctx, request):
        ctx.log.info("saw widget %s", request.name)
"""

#: Fails in every reconcile.
ALWAYS_RAISES = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("bad", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="greet=yes"))

    def reconcile(ctx, request):
        raise RuntimeError("a bug in the reconciler")
"""

#: Blocks forever in every reconcile.
BLOCKS = """
    import threading

    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("stuck", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="greet=yes"))

    def reconcile(ctx, request):
        ctx.log.info("blocking")
        threading.Event().wait()
"""


def to_greet(name: str) -> dict[str, Any]:
    """Return a ConfigMap for the greeter."""
    return config_map(name, labels={"greet": "yes"}, name=name.title())


def hook(name: str, body: str, parameters: str = "plugin") -> str:
    """Return the source of a plugin with one hook."""
    return f"import ctrlhost\n\n\n@ctrlhost.hookimpl\ndef {name}({parameters}):\n    {body}\n"
