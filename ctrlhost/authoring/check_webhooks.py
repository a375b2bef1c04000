"""The checks of what the API server knows of a plugin's webhooks."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from ctrlhost.authoring.findings import Finding
from ctrlhost.errors import ApiError
from ctrlhost.server.authority import NAME, Authority
from ctrlhost.webhooks.configurations import API_VERSION, CRDS, KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost.authoring.check import CheckedPlugin
    from ctrlhost.authoring.findings import Level
    from ctrlhost.client import Client

_APPLY = "apply the output of `ctrlhost manifests`"
_TIMEOUT = 5.0


def check_registration(plugin: CheckedPlugin, client: Client) -> Iterator[Finding]:
    """Check what the API server knows of the webhooks and conversions of a plugin, wherever its hosts run."""
    context = plugin.context
    try:
        known = {kind: list(client.list(API_VERSION, kind, timeout=_TIMEOUT)) for kind in KINDS.values()}
    except ApiError as error:
        yield Finding("warning", plugin.name, "webhook", f"cannot be checked: {error.message}", error.hint)
        return
    calls = _Calls(plugin.name, client)
    for webhook in context.webhooks:
        kind, what = KINDS[webhook.type], f"webhook {webhook.name}"
        entries = [
            (configuration, entry)
            for configuration in known[kind]
            for entry in configuration.get("webhooks") or ()
            if entry["name"] == webhook.qualified_name
        ]
        if not entries:
            yield calls.finding("error", f"{what} is in no {kind}, so it is not called", _APPLY)
        for configuration, entry in entries:
            where = f"{what} in {kind} {configuration['metadata']['name']}"
            yield from calls.check(where, entry["clientConfig"], entry.get("namespaceSelector"))
    for converters in context.conversions:
        crd = client.find(*CRDS, converters.crd_name, timeout=_TIMEOUT)
        conversion = ((crd or {}).get("spec", {}).get("conversion") or {}).get("webhook")
        if crd is not None and conversion is None:
            yield calls.finding("error", f"CRD {converters.crd_name} has no webhook of conversions", _APPLY)
        elif conversion is not None:
            yield from calls.check(f"conversion of CRD {converters.crd_name}", conversion["clientConfig"], None)


class _Calls:
    """Whether the API server can call what it knows."""

    def __init__(self, plugin: str, client: Client) -> None:
        self._plugin = plugin
        self._client = client

    def finding(self, level: Level, text: str, hint: str | None = None) -> Finding:
        return Finding(level, self._plugin, "webhook", text, hint)

    def check(self, what: str, config: Mapping[str, Any], selector: Mapping[str, Any] | None) -> Iterator[Finding]:
        """Check one client configuration; `selector` is that of namespaces, None where there is none."""
        service, problems = config.get("service"), []
        if service is not None:
            namespace = service["namespace"]
            problems += list(self._certificates(what, config, namespace))
            problems += list(self._endpoints(what, namespace, service["name"]))
            if selector is not None and self._matches(namespace, selector):
                text = f"{what} matches objects of the host's own namespace {namespace}: a host that is down stays down"
                problems.append(self.finding("error", text, f"exclude it by the namespaceSelector: {_APPLY}"))
        yield from problems or [self.finding("ok", f"{what} is registered")]

    def _certificates(self, what: str, config: Mapping[str, Any], namespace: str) -> Iterator[Finding]:
        trusted = base64.b64decode(config.get("caBundle") or "")
        if not trusted:
            yield self.finding(
                "error", f"{what} has no certificates to trust yet", "the host writes them: does it run?"
            )
            return
        try:
            secret = self._client.find("v1", "Secret", NAME, namespace, timeout=_TIMEOUT)
        except ApiError:
            # Without the right to read it, the rest can be checked.
            return
        if secret is None:
            return
        try:
            entries = {name: base64.b64decode(entry) for name, entry in (secret.get("data") or {}).items()}
            authority = Authority.read(entries)
        except ValueError as error:
            yield self.finding("error", f"Secret {namespace}/{NAME}: {error}", "delete it, and a host creates another")
            return
        if authority.newest.certificate.strip() not in trusted:
            text = f"{what} trusts another authority than that of Secret {namespace}/{NAME}"
            yield self.finding("error", text, "the host writes it: does it run, and lead?")

    def _endpoints(self, what: str, namespace: str, service: str) -> Iterator[Finding]:
        try:
            slices = self._client.list(
                "discovery.k8s.io/v1",
                "EndpointSlice",
                namespace,
                label_selector=f"kubernetes.io/service-name={service}",
                timeout=_TIMEOUT,
            )
            ready = any(
                (endpoint.get("conditions") or {}).get("ready", True)
                for entry in slices
                for endpoint in entry.get("endpoints") or ()
            )
        except ApiError:
            return
        if not ready:
            yield self.finding("warning", f"{what}: Service {namespace}/{service} has no endpoints that are ready")

    def _matches(self, namespace: str, selector: Mapping[str, Any]) -> bool:
        labels = {"kubernetes.io/metadata.name": namespace}
        try:
            live = self._client.find("v1", "Namespace", namespace, timeout=_TIMEOUT)
        except ApiError:
            live = None
        labels |= ((live or {}).get("metadata") or {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
            return False
        return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
