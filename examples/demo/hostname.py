"""Hostnames connected, swapped and released."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.demo.kubectl import apply, documents, show, wait

if TYPE_CHECKING:
    import ctrlhost

INGRESS = ("networking.k8s.io/v1", "Ingress")


def routes(client: ctrlhost.Client) -> dict[str, str]:
    """Return each hostname with the namespace and service of its Ingress."""
    by_host = {}
    for ingress in client.list(*INGRESS):
        rule = ingress["spec"]["rules"][0]
        service = rule["http"]["paths"][0]["backend"]["service"]
        by_host[rule["host"]] = (
            f"{ingress['metadata']['namespace'][:12]}…/{service['name']}:{service['port']['number']}"
        )
    return by_host


def demonstrate(client: ctrlhost.Client) -> None:
    """Hostnames connected, swapped and released."""
    folder = "plugins/hostname/examples"
    print("── hostname: every declared hostname gets its Ingress\n")
    apply(client, f"{folder}/01-leases.yaml", f"{folder}/02-connect.yaml")
    wait(lambda: len(routes(client)) == 2, "two Ingresses")
    print("  connected:")
    before = routes(client)
    show(before)

    apply(client, f"{folder}/03-swap.yaml")
    was = before["shop.example.com"]
    wait(lambda: routes(client).get("shop.example.com", was) != was, "a swap")
    print("  swapped, shop.example.com now leads to another lease:")
    show(routes(client))

    for document in documents(f"{folder}/07-release-delete.yaml"):
        meta = document["metadata"]
        print(f"$ kubectl delete providerhost {meta['name']} -n {meta['namespace']}", flush=True)
        client.delete(document["apiVersion"], document["kind"], meta["name"], meta["namespace"])
    wait(lambda: len(routes(client)) == 1, "one Ingress gone")
    print("  released:")
    show(routes(client))
