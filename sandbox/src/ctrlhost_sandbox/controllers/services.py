"""Services: EndpointSlices of their ready pods, and addresses for load balancers."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.objects import is_true
from ctrlhost_sandbox.controllers.controller import Controller, Key, controller_of
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.storage.store import Event, Table

_SERVICE = "kubernetes.io/service-name"
_MANAGED = "endpointslice.kubernetes.io/managed-by"
_HEADLESS = "service.kubernetes.io/headless"
_BY = "endpointslice-controller.k8s.io"


class ServiceController(Controller):
    """Keys are namespace and name of a Service."""

    name, parts = "service", frozenset({"endpointslice", "loadbalancer"})

    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return a changed Service, and those of a namespace with a changed pod or slice."""
        latest = event.latest
        if table.name == "services":
            return [latest.key]
        if table.name == "pods":
            return [item.key for item in self.context.store.table("services").list(latest.namespace)]
        name = latest.labels.get(_SERVICE) if table.name == "discovery.k8s.io/endpointslices" else None
        return [(latest.namespace, name)] if name else []

    def reconcile(self, key: Key) -> None:
        """Update the slice and the load balancer's address."""
        service = self.read(self.kind("", "Service"), *key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            return
        chosen, spec = self.context.options.controllers, service["spec"]
        if "endpointslice" in chosen and spec.get("selector") and spec.get("type") != "ExternalName":
            self._slice(service)
        if "loadbalancer" in chosen:
            self._balancer(service, key)

    def _slice(self, service: Object) -> None:
        metadata, spec = service["metadata"], service["spec"]
        kind, namespace = self.kind("discovery.k8s.io", "EndpointSlice"), metadata["namespace"]
        pods = [
            pod
            for pod in self.listed(self.kind("", "Pod"), namespace)
            if spec["selector"].items() <= (pod["metadata"].get("labels") or {}).items()
            and pod["status"].get("podIP")
            and pod["status"].get("phase") == "Running"
        ]
        endpoints = [self._endpoint(service, pod) for pod in pods]
        ports = _ports(spec, pods)
        uid = metadata["uid"]
        old = next((item for item in self.listed(kind, namespace) if controller_of(item) == uid), None)
        if old is None:
            labels = {**(metadata.get("labels") or {}), _SERVICE: metadata["name"], _MANAGED: _BY}
            if spec.get("clusterIP") == "None":
                labels[_HEADLESS] = ""
            endpoint_slice = {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "generateName": f"{metadata['name']}-",
                    "labels": labels,
                    "ownerReferences": [meta.owner_reference(service)],
                },
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": ports,
            }
            self.create(kind, namespace, endpoint_slice)
            return
        old["endpoints"], old["ports"] = endpoints, ports
        self.update(kind, old)

    def _endpoint(self, service: Object, pod: Object) -> dict[str, Any]:
        metadata = pod["metadata"]
        ready = is_true(pod, "Ready")
        leaving = "deletionTimestamp" in metadata
        published = (ready and not leaving) or bool(service["spec"].get("publishNotReadyAddresses"))
        endpoint: dict[str, Any] = {
            "addresses": [pod["status"]["podIP"]],
            "conditions": {"ready": published, "serving": ready, "terminating": leaving},
            "nodeName": pod["spec"]["nodeName"],
            "targetRef": {"kind": "Pod", **{key: metadata[key] for key in ("namespace", "name", "uid")}},
        }
        if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == service["metadata"]["name"]:
            endpoint["hostname"] = pod["spec"]["hostname"]
        return endpoint

    def _balancer(self, service: Object, key: Key) -> None:
        spec, status = service["spec"], service.get("status") or {}
        has = (status.get("loadBalancer") or {}).get("ingress")
        wants = spec.get("type") == "LoadBalancer" and not spec.get("loadBalancerClass")
        held = self.context.allocations.setdefault("loadBalancer", {})
        uid = service["metadata"]["uid"]
        if wants and not has:
            if uid not in held:
                held[uid] = ""
                self.add_after(key, self.context.options.load_balancer_delay)
                return
            held[uid] = held[uid] or spec.get("loadBalancerIP") or self._free(held)
            service["status"] = {**status, "loadBalancer": {"ingress": [{"ip": held[uid], "ipMode": "VIP"}]}}
            self.update(self.kind("", "Service"), service, "status")
        elif has and spec.get("type") != "LoadBalancer":
            held.pop(uid, None)
            service["status"] = {**status, "loadBalancer": {}}
            self.update(self.kind("", "Service"), service, "status")

    def _free(self, held: dict[str, str]) -> str:
        network = ipaddress.ip_network(self.context.options.load_balancer_cidr)
        taken = set(held.values())
        return next(str(address) for address in network.hosts() if str(address) not in taken)


def _ports(spec: Any, pods: list[Object]) -> list[dict[str, Any]]:
    """Return the ports of the pods: named targets are looked up in their containers."""
    ports = []
    for port in spec.get("ports") or ():
        target = port.get("targetPort", port["port"])
        if isinstance(target, str):
            numbers = [
                declared["containerPort"]
                for pod in pods
                for container in pod["spec"]["containers"]
                for declared in container.get("ports") or ()
                if declared.get("name") == target
            ]
            if not numbers:
                continue
            target = numbers[0]
        ports.append({"name": port.get("name", ""), "port": target, "protocol": port.get("protocol", "TCP")})
    return ports
