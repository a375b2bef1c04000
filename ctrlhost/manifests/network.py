"""Who reaches the ports of a host: Services, the NetworkPolicy, and the ServiceMonitor of the Prometheus operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.manifests.installation import COMPONENT
from ctrlhost.manifests.listeners import METRICS, PROBES
from ctrlhost.manifests.names import name_part
from ctrlhost.manifests.webhooks import WEBHOOKS
from ctrlhost.webhooks.configurations import PORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost.manifests.deployment import Workload
    from ctrlhost.manifests.listeners import Port

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
#: The token of Prometheus itself, in the pod of Prometheus.
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path


def services(workload: Workload) -> Iterator[dict[str, Any]]:
    """Return a Service for the metrics, one for webhooks, and one for the listeners of each plugin."""
    if (metrics := _served_metrics(workload)) is not None:
        yield _service(workload, METRICS, [metrics])
    webhooks = workload.listeners.of(WEBHOOKS)
    if webhooks is not None and workload.webhooks is not None:
        service = _service(workload, WEBHOOKS, [webhooks])
        (port,) = service["spec"]["ports"]
        service["metadata"]["name"], port["port"] = workload.webhooks.address.service, PORT
        yield service
    by_plugin: dict[str, list[Port]] = {}
    for port in workload.listeners.of_plugins():
        by_plugin.setdefault(port.plugin, []).append(port)
    for plugin, ports in sorted(by_plugin.items()):
        yield _service(workload, plugin, ports)


def _served_metrics(workload: Workload) -> Port | None:
    """Return the port of the metrics, None if nothing outside of the pod can reach it."""
    metrics = workload.listeners.of(METRICS)
    return None if metrics is None or metrics.loopback else metrics


def _service_name(workload: Workload, component: str) -> str:
    ending = f"-{name_part(component)}"
    # A Deployment of one plugin is named after it already.
    return workload.name if workload.name.endswith(ending) else workload.name + ending


def _service(workload: Workload, component: str, ports: Sequence[Port]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": _service_name(workload, component),
            "namespace": workload.namespace,
            "labels": {**workload.labels, COMPONENT: component},
        },
        "spec": {"selector": workload.labels, "ports": [port.served for port in ports]},
    }


def network_policy(workload: Workload, metrics_from: Sequence[str]) -> dict[str, Any]:
    """Return the policy: probes, webhooks and listeners of plugins from anywhere, metrics also or from some namespaces.

    Egress is not restricted, since the address of the API server is not known.
    """
    rules: list[dict[str, Any]] = []
    for name in (PROBES, METRICS, WEBHOOKS):
        port = workload.listeners.of(name)
        if port is None or port.loopback:
            continue
        rule = _to(port.name)
        if name == METRICS and metrics_from:
            selectors = [{"matchLabels": {_NAMESPACE_NAME: namespace}} for namespace in metrics_from]
            rule["from"] = [{"namespaceSelector": selector} for selector in selectors]
        rules.append(rule)
    rules += [_to(port.name) for port in workload.listeners.of_plugins()]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": workload.metadata,
        "spec": {"podSelector": {"matchLabels": workload.labels}, "policyTypes": ["Ingress"], "ingress": rules},
    }


def _to(port: str) -> dict[str, Any]:
    return {"ports": [{"port": port, "protocol": "TCP"}]}


def service_monitors(workload: Workload, *, certified: bool) -> Iterator[dict[str, Any]]:
    """Return the ServiceMonitor that makes Prometheus read the metrics with its own token, if it can reach them.

    `certified` if the operator gave their certificate; else each pod makes its own, if the metrics need a token.
    """
    if _served_metrics(workload) is None:
        return
    endpoint: dict[str, Any] = {"port": METRICS, "path": "/metrics"}
    if certified:
        service = f"{_service_name(workload, METRICS)}.{workload.namespace}.svc"
        endpoint |= {"scheme": "https", "tlsConfig": {"serverName": service}}
    elif workload.listeners.authenticated:
        endpoint |= {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}}
    if workload.listeners.authenticated:
        endpoint["bearerTokenFile"] = _TOKEN
    yield {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": workload.metadata,
        "spec": {
            "selector": {"matchLabels": {**workload.labels, COMPONENT: METRICS}},
            "endpoints": [endpoint],
        },
    }


def disruption_budget(workload: Workload) -> dict[str, Any]:
    """Return the budget that lets one pod at a time be evicted."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": workload.metadata,
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": workload.labels}},
    }
