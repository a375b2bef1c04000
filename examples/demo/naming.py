"""A conflict of CRD names, reported with its owner, and resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.demo.kubectl import apply, show, wait

if TYPE_CHECKING:
    import ctrlhost
    from examples.demo.host import Host

CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def conditions(client: ctrlhost.Client, name: str) -> dict[str, str]:
    """Return the conditions of a CRD as `status, reason`."""
    crd = client.find(*CRD, name) or {}
    listed = crd.get("status", {}).get("conditions") or ()
    return {condition["type"]: f"{condition['status']} ({condition.get('reason', '')})" for condition in listed}


def demonstrate(client: ctrlhost.Client, host: Host) -> None:
    """A conflict of CRD names, reported with its owner, and resolved."""
    folder = "plugins/naming/examples"
    print("── naming: two CustomResourceDefinitions want the same short name\n")
    apply(client, f"{folder}/01-gadgets.yaml", f"{folder}/02-gauges-in-conflict.yaml")
    gauges = "gauges.shop.example.com"
    wait(lambda: conditions(client, gauges).get("NamesAccepted", "").startswith("False"), "a conflict")
    print("  the server's conditions of gauges.shop.example.com:")
    show(conditions(client, gauges))
    print("  the plugin names the holder:")
    print(f"    {host.wait_for_message('conflict: .*held by')}\n", flush=True)

    apply(client, f"{folder}/03-gauges-resolved.yaml")
    wait(lambda: conditions(client, gauges).get("Established", "").startswith("True"), "its end")
    print("  resolved:")
    show(conditions(client, gauges))
