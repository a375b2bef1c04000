"""A host whose webhooks an API server calls by URL, for the objects of one namespace; and reviews as it sends them."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.host.host import Host
from tests.support.admission_rig import GROUP
from tests.support.declared import declared
from tests.support.http_client import Api
from tests.support.rbac_rig import api_of
from tests.support.tls_files import Authority
from tests.support.waiting import eventually
from tests.support.webhook_server import configuration

if TYPE_CHECKING:
    from ctrlhost.webhooks.webhook import Webhook
    from tests.support.control_plane import ControlPlane

#: What webhooks of these types are in.
SORTS = {"validate": "Validating", "mutate": "Mutating"}
#: The label of the objects that the rig's own webhooks refuse.
MARK = "mark"


class Certificate:
    """A certificate for loopback and its key, as a mounted Secret has them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.authority = Authority(folder / "authority")
        self.replace()

    def replace(self, days: float = 1) -> bytes:
        """Write another pair, and return its certificate as a server shows it."""
        certificate, key = self.authority.issue("localhost", address="127.0.0.1", days=days)
        self.write("tls.key", key)
        self.write("tls.crt", certificate)
        return ssl.PEM_cert_to_DER_cert(certificate)

    def write(self, name: str, text: str) -> None:
        """Replace a file at once."""
        new = self.folder / f"{name}.new"
        new.write_text(text)
        new.rename(self.folder / name)

    @property
    def bundle(self) -> str:
        """The CA bundle of a client configuration."""
        return base64.b64encode(self.authority.pem.encode()).decode()

    def context(self) -> ssl.SSLContext:
        """Return the context of a client that verifies what the host shows."""
        return ssl.create_default_context(cadata=self.authority.pem)


class Listener:
    """A client of a webhook listener, with a connection for each request."""

    def __init__(self, address: str, certificate: Certificate) -> None:
        self.address = address
        self._certificate = certificate

    def send(self, path: str, body: bytes | None, method: str = "POST") -> tuple[int, str]:
        """Return the status and the body of the answer."""
        connection = http.client.HTTPSConnection(self.address, timeout=30, context=self._certificate.context())
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def review(self, path: str, new: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Return the response to a review of a creation."""
        status, body = self.send(path, review(new, **more))
        assert status == 200, (status, body)
        response: dict[str, Any] = json.loads(body)["response"]
        return response


def review(new: dict[str, Any], api_version: str = "admission.k8s.io/v1", **more: Any) -> bytes:
    """Return the body of a review of a creation."""
    group, _, version = new["apiVersion"].rpartition("/")
    request = {
        "uid": "42",
        "operation": "CREATE",
        "kind": {"group": group, "version": version, "kind": new["kind"]},
        "name": new["metadata"]["name"],
        "namespace": new["metadata"].get("namespace", ""),
        "userInfo": {"username": "ann"},
        "object": new,
        "oldObject": None,
        "dryRun": False,
        **more,
    }
    return json.dumps({"apiVersion": api_version, "kind": "AdmissionReview", "request": request}).encode()


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON patch of a response."""
    patch: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    return patch


def entry(webhook: Webhook, url: str, bundle: str, namespace: str) -> dict[str, Any]:
    """Return a webhook as a configuration names it, for the objects of a namespace."""
    group, _, version = webhook.kind.api_version.rpartition("/")
    plural = f"{webhook.kind.kind.lower()}s"
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": [*webhook.operations],
        "resources": [f"{plural}/{webhook.subresource}" if webhook.subresource else plural],
    }
    own = {"reinvocationPolicy": "IfNeeded" if webhook.reinvoke else "Never"} if webhook.type == "mutate" else {}
    return {
        "name": webhook.qualified_name,
        "clientConfig": {"url": f"{url}{webhook.path}", "caBundle": bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": webhook.failure_policy,
        "timeoutSeconds": int(webhook.timeout),
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchLabels": dict([webhook.label_selector.split("=")])} if webhook.label_selector else {},
        "matchConditions": [{"name": "when", "expression": webhook.when}] if webhook.when else [],
        **own,
    }


def marker() -> Any:
    """Return a plugin whose webhooks refuse what has the label `mark`: the API server calls those of the rig then."""
    plugin = declared("marker")

    def refuse(_ctx: Any, _new: Any, _old: Any) -> None:
        raise ctrlhost.Denied("marked")

    plugin.validate("v1/ConfigMap", name="validator", label_selector=f"{MARK}=validate")(refuse)
    plugin.mutate("v1/ConfigMap", name="mutator", label_selector=f"{MARK}=mutate")(refuse)
    return plugin


def config_map(name: str, labels: dict[str, str], **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}


class WebhookHost:
    """The host, with the webhooks of its plugins in configurations that end with it; a context manager."""

    def __init__(self, folder: Path, server: ControlPlane, namespace: str, *plugins: Any, **settings: Any) -> None:
        self.server, self.namespace = server, namespace
        self.client = ctrlhost.Client.load(str(server.kubeconfig))
        self.api = api_of(server.kubeconfig)
        self.certificate = Certificate(folder)
        host = {
            "listen": "127.0.0.1:0",
            "webhook_listen": "127.0.0.1:0",
            "webhook_cert_dir": str(folder),
            **settings.pop("host", {}),
        }
        empty: dict[str, Any] = {"plugins": {}, "controllers": {}, "supervision": {}, "informers": {}}
        tables = Configuration({**empty, "host": host, **settings}, "")
        self.host = Host(tables.host, [*plugins, marker()], configuration=tables, client=self.client)
        self._names = [f"{namespace}-{plugin.__name__}" for plugin in (*plugins, marker())]
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.client.close)
            stack.enter_context(self.api)
            stack.callback(lambda: self.host.stop(5))
            self.host.start()
            assert self.host.wait_ready(30)
            address = eventually(lambda: self.host.webhook_address)
            self.url, self.listener = f"https://{address}", Listener(address, self.certificate)
            stack.callback(self._remove)
            self._register()
            self._ending = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def _register(self) -> None:
        for runtime, name in zip(self.host.plugins, self._names, strict=True):
            assert runtime.context is not None, runtime
            for type_, sort in SORTS.items():
                entries = [
                    entry(webhook, self.url, self.certificate.bundle, self.namespace)
                    for webhook in runtime.context.webhooks
                    if webhook.type == type_
                ]
                if entries:
                    self.api.post(
                        f"{GROUP}/{sort.lower()}webhookconfigurations", configuration(name, *entries, sort=sort)
                    ).expect(201)
        for type_ in SORTS:
            marked = config_map("marked", {MARK: type_})
            path = self.path("configmaps")
            eventually(lambda: b"marked" in self.api.post(path, marked, dryRun="All").body, pause=0.02)  # noqa: B023

    def _remove(self) -> None:
        for name in self._names:
            for sort in SORTS.values():
                self.api.delete(f"{GROUP}/{sort.lower()}webhookconfigurations/{name}").expect(200, 404)

    def path(self, resource: str, name: str = "", group: str = "/api/v1") -> str:
        """Return the path of a resource of the namespace, or of one object."""
        path = f"{group}/namespaces/{self.namespace}/{resource}"
        return f"{path}/{name}" if name else path

    def ready(self) -> tuple[int, str]:
        """Return the answer of `/readyz?verbose`."""
        return self.get("/readyz?verbose")

    def get(self, path: str) -> tuple[int, str]:
        """Return an answer of the host's own address."""
        api = Api(f"http://{self.host.address}")
        answer = api.get(path)
        return answer.status, answer.body.decode()
