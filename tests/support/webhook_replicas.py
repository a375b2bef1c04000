"""Hosts in one namespace whose webhooks an API server calls, with an authority in a Secret, as in a cluster."""

from __future__ import annotations

import base64
import http.client
import itertools
import ssl
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from cryptography import x509
from cryptography.x509 import verification

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.host.host import Host
from ctrlhost.manifests.loading import load_plugins
from ctrlhost.manifests.rbac import plurals
from ctrlhost.manifests.webhooks import webhook_objects
from ctrlhost.server.authority import NAME
from ctrlhost.webhooks.configurations import API_VERSION, MUTATING, VALIDATING, ServiceAddress
from tests.support.declared import declared
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.clock import Clock
    from tests.support.control_plane import ControlPlane

SERVICE = "ctrlhost-webhooks"
PLUGIN = "colors"
_serial = itertools.count(1)
_EMPTY: dict[str, Any] = {"plugins": {}, "controllers": {}, "supervision": {}, "informers": {}}


def colors() -> Any:
    """Return a plugin whose webhooks refuse blue ConfigMaps, and make the others red."""
    plugin = declared(PLUGIN)

    def refuse(_ctx: Any, new: Any, _old: Any) -> None:
        if new["data"]["color"] == "blue":
            raise ctrlhost.Denied("no blue", field="data.color")

    def fill(_ctx: Any, new: Any, _old: Any) -> Any:
        return {**new, "data": {"color": "red", **new.get("data", {})}}

    plugin.validate("v1/ConfigMap", name="no-blue")(refuse)
    plugin.mutate("v1/ConfigMap", name="red")(fill)
    return plugin


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    """Return a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


class Replicas:
    """The replicas in a namespace of their own, and the objects that their operator applies; a context manager."""

    def __init__(self, server: ControlPlane, plugin: Callable[[], Any] = colors) -> None:
        self.server, self._plugin = server, plugin
        self.client = ctrlhost.Client.load(str(server.kubeconfig))
        number = next(_serial)
        #: Of the hosts, and of the objects that their webhooks are asked about.
        self.namespace, self.other = f"hosts-{server.kind}-{number}", f"objects-{server.kind}-{number}"
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        self._ending.callback(self.client.close)
        for name in (self.namespace, self.other):
            self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._ending.callback(self.remove)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def host(self, clock: Clock | None = None, **settings: Any) -> Host:
        """Prepare a host that ends with this."""
        tables = {"listen": "127.0.0.1:0", "webhook_listen": "127.0.0.1:0", **settings}
        configuration = Configuration({**_EMPTY, "host": tables}, "")
        client = ctrlhost.Client.over(
            ctrlhost.Client.load(str(self.server.kubeconfig)).transport, namespace=self.namespace
        )
        self._ending.callback(client.close)
        host = Host(configuration.host, [self._plugin()], configuration=configuration, client=client, clock=clock)
        self._ending.callback(host.stop, 5)
        return host

    def started(self, clock: Clock | None = None, **settings: Any) -> Host:
        """Start a host, and wait until it serves its webhooks."""
        host = self.host(clock, **settings)
        host.start()
        eventually(lambda: host.webhook_address)
        return host

    def configurations(self) -> list[dict[str, Any]]:
        """Return the configurations that `ctrlhost manifests` prints."""
        loaded = load_plugins([self._plugin()], Configuration({**_EMPTY, "host": {}}, ""))
        objects = webhook_objects(loaded, plurals(()), ServiceAddress(self.namespace, SERVICE))
        return [] if objects is None else list(objects.configurations())

    def apply(self, host: Host | None = None) -> None:
        """Apply the configurations; with a host, they lead to it by URL in place of the Service."""
        for configuration in self.configurations():
            for webhook in configuration["webhooks"]:
                if host is not None:
                    path = webhook["clientConfig"]["service"]["path"]
                    webhook["clientConfig"] = {"url": f"https://{host.webhook_address}{path}"}
            self.client.apply(configuration, field_manager="operator")

    @property
    def names(self) -> list[tuple[str, str]]:
        """Kind and name of the configurations."""
        return [(configuration["kind"], configuration["metadata"]["name"]) for configuration in self.configurations()]

    def live(self, kind: str = VALIDATING) -> dict[str, Any]:
        """Return a configuration as it is on the server."""
        (name,) = (name for known, name in self.names if known == kind)
        return self.client.get(API_VERSION, kind, name)

    def bundles(self, kinds: Iterable[str] = (VALIDATING, MUTATING)) -> list[bytes | None]:
        """Return the certificates that each webhook is trusted by, None for those of the system."""
        own = [kind for kind, _ in self.names if kind in kinds]
        configs = [webhook["clientConfig"] for kind in own for webhook in self.live(kind)["webhooks"]]
        return [base64.b64decode(config["caBundle"]) if config.get("caBundle") else None for config in configs]

    def trusted(self) -> bytes:
        """Wait until all webhooks are trusted by the same certificates, and return them."""

        def same() -> bytes | None:
            bundles = set(self.bundles())
            return bundles.pop() if len(bundles) == 1 else None

        bundle: bytes = eventually(same)
        return bundle

    def secret(self) -> dict[str, Any] | None:
        """Return the Secret of the authority."""
        return self.client.find("v1", "Secret", NAME, self.namespace)

    def denied(self) -> bool:
        """Return whether the API server has called the validator; False if it could not call it."""
        try:
            self.client.create(config_map("blue", self.other, color="blue"))
        except ctrlhost.ApiError as error:
            return "no blue" in error.message
        self.client.delete("v1", "ConfigMap", "blue", self.other)
        return False

    def remove(self) -> None:
        """Remove what would be in the way of other tests."""
        for kind, name in self.names:
            if self.client.find(API_VERSION, kind, name) is not None:
                self.client.delete(API_VERSION, kind, name)


def shown_by(host: Host) -> bytes:
    """Return the certificate that a host shows, as PEM."""
    assert host.webhook_address is not None
    name, _, port = host.webhook_address.rpartition(":")
    return ssl.get_server_certificate((name, int(port)), timeout=30).encode()


def verifies(certificate: bytes, bundle: bytes, now: float, namespace: str) -> bool:
    """Return whether a client that trusts the bundle accepts the certificate for the Service at that time."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    builder = verification.PolicyBuilder().store(store).time(datetime.fromtimestamp(now, UTC))
    verifier = builder.build_server_verifier(x509.DNSName(f"{SERVICE}.{namespace}.svc"))
    try:
        verifier.verify(x509.load_pem_x509_certificate(certificate), [])
    except verification.VerificationError:
        return False
    return True


def ready(host: Host) -> tuple[int, str]:
    """Return the answer of `/readyz?verbose`."""
    assert host.address is not None
    connection = http.client.HTTPConnection(host.address, timeout=30)
    connection.request("GET", "/readyz?verbose")
    response = connection.getresponse()
    try:
        return response.status, response.read().decode()
    finally:
        connection.close()
