"""The load balancer's address on every Ingress of the class."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from examples.demo.hostname import INGRESS
from examples.demo.kubectl import apply, show, wait

if TYPE_CHECKING:
    import ctrlhost

NAMESPACE, SERVICE = "projectcontour", "envoy"


def addresses(client: ctrlhost.Client) -> dict[str, str]:
    """Return the address in the status of each Ingress."""
    by_name = {}
    for ingress in client.list(*INGRESS):
        entries = ((ingress.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        name = ingress["metadata"]["name"]
        short = name if len(name) <= 20 else f"{name[:19]}…"
        by_name[short] = ", ".join(entry.get("ip") or entry["hostname"] for entry in entries) or "-"
    return by_name


def is_published(client: ctrlhost.Client, address: str) -> bool:
    """Return whether exactly the Ingresses of the class have the address."""
    return set(addresses(client).values()) == {address, "-"}


def demonstrate(client: ctrlhost.Client) -> None:
    """Assign and change an address."""
    folder = "plugins/ingress-status/examples"
    print("── ingress-status: the external address of each Ingress\n")
    apply(client, f"{folder}/01-service.yaml", f"{folder}/02-ingresses.yaml")
    for address in ("203.0.113.7", "203.0.113.8"):
        print(f"  a cloud assigns {address} to the Service {NAMESPACE}/{SERVICE}:")
        status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
        client.patch("v1", "Service", SERVICE, NAMESPACE, status, subresource="status")
        wait(functools.partial(is_published, client, address), "the address on the Ingresses")
        show(addresses(client))
