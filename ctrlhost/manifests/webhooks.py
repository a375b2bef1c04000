"""What makes the API server call the webhooks of plugins in a pod, and trust them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError
from ctrlhost.permissions import Permission
from ctrlhost.server.authority import NAME, service_names
from ctrlhost.webhooks.configurations import CRDS, GROUP, PLURALS, ServiceAddress, addressed, configurations, entry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ctrlhost.manifests.loading import SetUpPlugin

#: The name of the port, and the component in the names of the Service and of cert-manager's objects.
WEBHOOKS = "webhooks"
#: Where the certificate of cert-manager is mounted.
FOLDER = "/etc/ctrlhost/webhooks"
_CERT_MANAGER = "cert-manager.io"
#: Characters of the name of a Service, which is a DNS label.
_LONGEST = 63
#: What a host needs to follow an object by its name.
_WATCHED = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class WebhookObjects:
    """The objects of one Deployment whose plugins have webhooks."""

    address: ServiceAddress
    #: The entries of the configurations by plugin and path, as `configurations` takes them.
    entries: dict[str, dict[str, dict[str, Any]]]
    #: Whether cert-manager makes the certificate.
    cert_manager: bool = False
    #: The CRDs whose objects plugins convert, by the path.
    converted: dict[str, str] = field(default_factory=dict)

    @property
    def certificate(self) -> str:
        """The name of cert-manager's objects and of its Secret."""
        return self.address.service

    def configurations(self) -> Iterator[dict[str, Any]]:
        """Yield the configurations."""
        for plugin, entries in self.entries.items():
            yield from map(self._annotated, configurations(plugin, entries, self.address))

    def addressed(self, crd: dict[str, Any]) -> dict[str, Any]:
        """Return a CRD whose conversion leads to the Service; other CRDs as they are."""
        if crd["metadata"]["name"] not in self.converted.values():
            return crd
        return self._annotated(addressed(crd, self.address, self.converted))

    def permissions(self) -> Iterator[Permission]:
        """Yield what the host needs for its authority, and to write the certificates to trust."""
        if self.cert_manager:
            return
        namespace = self.address.namespace
        # RBAC cannot restrict `create` by name: the authorizer does not know the name of a new object.
        yield Permission("", ["secrets"], ["create"], namespace=namespace)
        yield Permission("", ["secrets"], [*_WATCHED, "update"], [NAME], namespace)
        for configuration in self.configurations():
            plural, name = PLURALS[configuration["kind"]], configuration["metadata"]["name"]
            yield Permission(GROUP, [plural], [*_WATCHED, "patch"], [name])
        if self.converted:
            crds = sorted(self.converted.values())
            yield Permission(CRDS[0].partition("/")[0], ["customresourcedefinitions"], [*_WATCHED, "patch"], crds)

    def arguments(self) -> list[str]:
        """Return the arguments of the host."""
        named = [f"--set=host.webhook_service={self.address.service}"]
        return [*named, f"--set=host.webhook_cert_dir={FOLDER}"] if self.cert_manager else named

    def volumes(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the volume with the certificate of cert-manager, and where the container mounts it."""
        if not self.cert_manager:
            return [], []
        # Without `ca.crt` the host writes no certificates to trust.
        items = [{"key": key, "path": key} for key in ("tls.crt", "tls.key")]
        volume = {"name": WEBHOOKS, "secret": {"secretName": self.certificate, "defaultMode": 0o440, "items": items}}
        return [volume], [{"name": WEBHOOKS, "mountPath": FOLDER, "readOnly": True}]

    def issued(self) -> Iterator[dict[str, Any]]:
        """Yield the objects of cert-manager."""
        if not self.cert_manager:
            return
        metadata = {"name": self.certificate, "namespace": self.address.namespace}
        api_version = f"{_CERT_MANAGER}/v1"
        yield {"apiVersion": api_version, "kind": "Issuer", "metadata": metadata, "spec": {"selfSigned": {}}}
        spec = {
            "secretName": self.certificate,
            "dnsNames": list(service_names(self.address.service, self.address.namespace)),
            "issuerRef": {"kind": "Issuer", "name": self.certificate},
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        }
        yield {"apiVersion": api_version, "kind": "Certificate", "metadata": dict(metadata), "spec": spec}

    def _annotated(self, obj: dict[str, Any]) -> dict[str, Any]:
        if not self.cert_manager:
            return obj
        metadata = obj["metadata"]
        injected = {f"{_CERT_MANAGER}/inject-ca-from": f"{self.address.namespace}/{self.certificate}"}
        return {**obj, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **injected}}}


def has_webhooks(plugin: SetUpPlugin) -> bool:
    """Return whether the API server calls a plugin."""
    return bool(plugin.context.webhooks or plugin.context.conversions)


def webhook_objects(
    plugins: Iterable[SetUpPlugin],
    plural: Callable[[str, str], tuple[str, bool]],
    address: ServiceAddress,
    *,
    cert_manager: bool = False,
) -> WebhookObjects | None:
    """Return the objects for the plugins of one Deployment; None if none of them has webhooks."""
    called = [plugin for plugin in plugins if has_webhooks(plugin)]
    if not called:
        return None
    if len(address.service) > _LONGEST:
        raise ConfigError(
            f"Service {address.service}: the name has {len(address.service)} characters, {_LONGEST} are possible",
            hint="give a shorter `--name`, or name the Service: `--set=host.webhook_service=NAME`",
        )
    entries = {
        plugin.name: {
            webhook.path: entry_of(webhook, lambda version, kind: plural(version, kind)[0])
            for webhook in plugin.context.webhooks
        }
        for plugin in called
    }
    converted = {converters.path: converters.crd_name for plugin in called for converters in plugin.context.conversions}
    return WebhookObjects(address, entries, cert_manager, converted)


def service_of(deployment: str) -> str:
    """Return the usual name of the Service of a Deployment's webhooks."""
    return f"{deployment}-{WEBHOOKS}"
