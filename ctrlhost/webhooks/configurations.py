"""What the API server must know of a plugin's webhooks: their configurations, and where they are reached."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.client.builtin_kinds import builtin_plural
from ctrlhost.models.kinds import names_of, plural_of
from ctrlhost.selectors.labels import parse
from ctrlhost.webhooks.webhook import plain_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ctrlhost.webhooks.webhook import Webhook

API_VERSION = "admissionregistration.k8s.io/v1"
GROUP = API_VERSION.partition("/")[0]
VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
#: The kind of configuration by the beginning of the paths of its webhooks, and its plural.
KINDS = {"mutate": MUTATING, "validate": VALIDATING}
PLURALS = {MUTATING: "mutatingwebhookconfigurations", VALIDATING: "validatingwebhookconfigurations"}
CRDS = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
#: The end of the names of the configurations of a host outside of the cluster.
OUTSIDE = ".dev.ctrlhost"
#: The port of the Service.
PORT = 443
_NAMESPACE = "kubernetes.io/metadata.name"
#: Without it, no cluster starts.
_SYSTEM = "kube-system"


class Address(Protocol):
    """How the API server reaches the webhooks of a host."""

    def client_config(self, path: str) -> dict[str, Any]:
        """Return the `clientConfig` of a webhook."""

    def name(self, plugin: str) -> str:
        """Return the name of the configurations of a plugin."""

    def excluded(self) -> list[str]:
        """Return the namespaces whose objects never match."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Through the Service of a host in the cluster. What such a host needs to start never matches its own webhooks."""

    namespace: str
    service: str

    def client_config(self, path: str) -> dict[str, Any]:
        """Return the `clientConfig` of a webhook, without the certificates that a host adds to it."""
        return {"service": {"namespace": self.namespace, "name": self.service, "path": path, "port": PORT}}

    def name(self, plugin: str) -> str:
        """Return the name of the configurations of a plugin; other installations may run the plugin, too."""
        return f"{self.namespace}-{self.service}-{plain_name(plugin)}"

    def excluded(self) -> list[str]:
        """Return the namespaces whose objects never match."""
        return sorted({self.namespace, _SYSTEM})


@dataclass(frozen=True, slots=True)
class UrlAddress:
    """By URL, of a host outside of the cluster."""

    url: str
    #: The certificates that the API server shall trust, as PEM; None for those of its system.
    bundle: bytes | None

    def client_config(self, path: str) -> dict[str, Any]:
        """Return the `clientConfig` of a webhook."""
        url = {"url": f"{self.url.rstrip('/')}{path}"}
        return url if self.bundle is None else url | {"caBundle": base64.b64encode(self.bundle).decode()}

    def name(self, plugin: str) -> str:
        """Return the name of the configurations of a plugin."""
        return f"{plain_name(plugin)}{OUTSIDE}"

    def excluded(self) -> list[str]:
        """Return the namespaces whose objects never match."""
        return [_SYSTEM]


def entry_of(
    webhook: Webhook, plural: Callable[[str, str], str | None] = lambda _version, _kind: None
) -> dict[str, Any]:
    """Return the entry of a webhook, without where it is reached; `plural` knows the kinds of CRDs."""
    group, _, version = webhook.kind.api_version.rpartition("/")
    resource = plural(webhook.kind.api_version, webhook.kind.kind) or _plural(webhook)
    entry: dict[str, Any] = {
        "name": webhook.qualified_name,
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "resources": [f"{resource}/{webhook.subresource}" if webhook.subresource else resource],
                "operations": list(webhook.operations),
                "scope": "*",
            }
        ],
        "failurePolicy": webhook.failure_policy,
        "timeoutSeconds": int(webhook.timeout),
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchExpressions": [_expression(_NAMESPACE, "In", webhook.namespaces)]}
        if webhook.namespaces
        else {},
        "objectSelector": _selector(webhook.label_selector),
    }
    if webhook.type == "mutate":
        entry["reinvocationPolicy"] = "IfNeeded" if webhook.reinvoke else "Never"
    if webhook.when:
        entry["matchConditions"] = [{"name": "when", "expression": webhook.when}]
    return entry


def configurations(plugin: str, entries: Mapping[str, dict[str, Any]], address: Address) -> Iterator[dict[str, Any]]:
    """Yield the configurations of a plugin, given the entries of its webhooks by path, in the order of declaration."""
    excluded = _expression(_NAMESPACE, "NotIn", address.excluded())
    for prefix, kind in KINDS.items():
        webhooks = []
        for path, entry in entries.items():
            if path.startswith(f"/{prefix}/"):
                chosen = entry["namespaceSelector"].get("matchExpressions", [])
                selector = {"matchExpressions": [*chosen, excluded]}
                webhooks.append({**entry, "namespaceSelector": selector, "clientConfig": address.client_config(path)})
        if webhooks:
            metadata = {"name": address.name(plugin)}
            yield {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "webhooks": webhooks}


def addressed(crd: dict[str, Any], address: Address, paths: Collection[str]) -> dict[str, Any]:
    """Return a CRD whose conversion is reached there, if it is one of these paths; else the CRD as it is."""
    conversion = crd["spec"].get("conversion") or {}
    path = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service", {}).get("path")
    if path not in paths:
        return crd
    webhook = {**conversion["webhook"], "clientConfig": address.client_config(path)}
    return {**crd, "spec": {**crd["spec"], "conversion": {**conversion, "webhook": webhook}}}


def _plural(webhook: Webhook) -> str:
    kind = webhook.kind
    names = names_of(kind.model)
    builtin = builtin_plural(kind.api_version, kind.kind)
    return (names.plural if names else None) or (builtin[0] if builtin else plural_of(kind.kind))


def _selector(label_selector: str) -> dict[str, Any]:
    """Return a label selector as objects have it."""
    expressions = []
    for requirement in parse(label_selector):
        if requirement.values is None:
            operator = "DoesNotExist" if requirement.negated else "Exists"
            expressions.append({"key": requirement.key, "operator": operator})
        else:
            operator = "NotIn" if requirement.negated else "In"
            expressions.append(_expression(requirement.key, operator, requirement.values))
    return {"matchExpressions": expressions} if expressions else {}


def _expression(key: str, operator: str, values: Iterable[str]) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": sorted(values)}
