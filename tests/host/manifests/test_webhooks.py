"""What `ctrlhost manifests` prints for plugins with webhooks, and a real server on which all of that is applied."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import msgspec
import pytest

import ctrlhost
from ctrlhost.config.load import Configuration
from ctrlhost.host.host import Host
from ctrlhost.host.webhooks.authority_secret import AuthoritySecret
from ctrlhost.manifests.deployment import Resources
from ctrlhost.manifests.loading import load_plugins
from ctrlhost.manifests.manifests import Deployed, manifests
from ctrlhost.server.authority import NAME, service_names
from ctrlhost.testing.real_server import Address, RealServer
from ctrlhost.testing.record import RecordingTransport, RequestRecord
from ctrlhost.transport.wrapped import WrappedTransport
from tests.support.declared import declared
from tests.support.manifests import Manifest, Printed, of_kind
from tests.support.tls_files import Authority
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.transport.interface import HttpRequest, Response
    from ctrlhost.transport.steps import Steps
    from tests.support.control_plane import ControlPlane

behaviour = pytest.mark.behaviour
GROUP = "manifests.example.com"
CRD = f"panels.{GROUP}"
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class OldSpec(msgspec.Struct):
    size: int


class Spec(msgspec.Struct):
    width: int


@ctrlhost.resource(f"{GROUP}/v1alpha1", kind="Panel")
class OldPanel(ctrlhost.Model[OldSpec, ctrlhost.ModelStatus]):
    pass


@ctrlhost.resource(f"{GROUP}/v1", kind="Panel", storage=True)
class Panel(ctrlhost.Model[Spec, ctrlhost.ModelStatus]):
    pass


def panels() -> Any:
    """Return a plugin with webhooks and conversions."""
    plugin = declared("panels")
    plugin.convert(Panel, source=OldPanel, target=Panel)(
        lambda obj: {**obj, "spec": {"width": obj["spec"]["size"]}},
    )
    plugin.convert(Panel, source=Panel, target=OldPanel)(
        lambda obj: {**obj, "spec": {"size": obj["spec"]["width"]}},
    )

    @plugin.validate(Panel, timeout="3s", failure_policy="Ignore", when="object.spec.width > 0", label_selector="a!=b")
    def narrow(ctx: Any, new: Panel | None, old: Panel | None) -> None:
        if new is not None and new.spec.width > 9:
            raise ctrlhost.Denied("9 at most", field="spec.width")

    @plugin.validate("apps/v1/Deployment", "*", subresource="scale", namespaces=["shop"])
    def scaled(ctx: Any, new: Any, old: Any) -> None:
        pass

    @plugin.mutate(Panel, reinvoke=False)
    def first(ctx: Any, new: Panel, old: Panel | None) -> None:
        pass

    @plugin.mutate(Panel)
    def another(ctx: Any, new: Panel, old: Panel | None) -> None:
        pass

    return plugin


def documents(namespace: str = "ctrlhost-system", **deployed: Any) -> list[Manifest]:
    empty: dict[str, Any] = {"plugins": {}, "controllers": {}, "supervision": {}, "informers": {}}
    configuration = Configuration({**empty, "host": deployed.pop("host", {})}, "")
    loaded = load_plugins([panels()], configuration)
    name = deployed.pop("name", "ctrlhost")
    what = Deployed(name, namespace, "example.com/ctrlhost:1", resources=Resources(), **deployed)
    return list(manifests(loaded, configuration, what))


def named(printed: list[Manifest], kind: str, name: str) -> Manifest:
    (manifest,) = (manifest for manifest in of_kind(printed, kind) if manifest["metadata"]["name"] == name)
    return manifest


@behaviour("webhooks/WH22")
def test_configurations_say_what_the_declarations_do() -> None:
    printed = documents()
    validating, mutating = (
        named(printed, f"{sort}WebhookConfiguration", "ctrlhost-system-ctrlhost-webhooks-panels")
        for sort in ("Validating", "Mutating")
    )
    system = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["ctrlhost-system", "kube-system"],
    }
    service = {"namespace": "ctrlhost-system", "name": "ctrlhost-webhooks", "port": 443}
    always = {"matchPolicy": "Equivalent", "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["panels"], "scope": "*"}
    assert validating["webhooks"] == [
        {
            "name": "narrow.panels.ctrlhost.dev",
            "clientConfig": {"service": {**service, "path": "/validate/panels/narrow"}},
            "rules": [{**rule, "operations": ["CREATE", "UPDATE"]}],
            "failurePolicy": "Ignore",
            "timeoutSeconds": 3,
            "namespaceSelector": {"matchExpressions": [system]},
            "objectSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]},
            "matchConditions": [{"name": "when", "expression": "object.spec.width > 0"}],
            **always,
        },
        {
            "name": "scaled.panels.ctrlhost.dev",
            "clientConfig": {"service": {**service, "path": "/validate/panels/scaled"}},
            "rules": [
                {
                    "apiGroups": ["apps"],
                    "apiVersions": ["v1"],
                    "resources": ["deployments/scale"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "scope": "*",
                }
            ],
            "failurePolicy": "Fail",
            "timeoutSeconds": 5,
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"]},
                    system,
                ]
            },
            "objectSelector": {},
            **always,
        },
    ]
    # In the order of the declarations, which the API server keeps.
    assert [(webhook["name"], webhook["reinvocationPolicy"]) for webhook in mutating["webhooks"]] == [
        ("first.panels.ctrlhost.dev", "Never"),
        ("another.panels.ctrlhost.dev", "IfNeeded"),
    ]
    (crd,) = of_kind(printed, "CustomResourceDefinition")
    assert crd["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {**service, "path": f"/convert/{GROUP}/panels"}},
        },
    }


@behaviour("webhooks/WH22")
def test_the_service_leads_to_the_port_of_the_container() -> None:
    printed = documents()
    service = named(printed, "Service", "ctrlhost-webhooks")
    assert service["spec"]["ports"] == [{"name": "webhooks", "port": 443, "targetPort": "webhooks", "protocol": "TCP"}]
    (deployment,) = of_kind(printed, "Deployment")
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    assert {"name": "webhooks", "containerPort": 9443, "protocol": "TCP"} in container["ports"]
    assert "--set=host.webhook_listen=:9443" in container["args"]
    assert "--set=host.webhook_service=ctrlhost-webhooks" in container["args"]
    (policy,) = of_kind(printed, "NetworkPolicy")
    assert {"ports": [{"port": "webhooks", "protocol": "TCP"}]} in policy["spec"]["ingress"]
    with pytest.raises(ctrlhost.ConfigError, match=r"webhook_listen: the API server cannot reach a loopback address"):
        documents(host={"webhook_listen": "127.0.0.1:9443"})
    renamed = documents(host={"webhook_service": "hooks"})
    assert named(renamed, "Service", "hooks")["spec"] == service["spec"]
    assert of_kind(renamed, CONFIGURATIONS[0])[0]["metadata"]["name"] == "ctrlhost-system-hooks-panels"


@behaviour("webhooks/WH22")
def test_each_deployment_has_a_service_of_its_own() -> None:
    printed = documents(per_plugin=True)
    service = named(printed, "Service", "ctrlhost-panels-webhooks")
    for kind in CONFIGURATIONS:
        (configuration,) = of_kind(printed, kind)
        assert configuration["metadata"]["name"] == "ctrlhost-system-ctrlhost-panels-webhooks-panels"
        for webhook in configuration["webhooks"]:
            assert webhook["clientConfig"]["service"]["name"] == service["metadata"]["name"]


def test_a_service_whose_name_the_server_does_not_take_is_an_error() -> None:
    long = "a" * 55
    with pytest.raises(ctrlhost.ConfigError, match=f"Service {long}-webhooks: the name has 64 characters"):
        documents(name=long)
    assert named(documents(name=long, host={"webhook_service": "short"}), "Service", "short")


def granted(printed: list[Manifest]) -> set[tuple[str, str, str, tuple[str, ...]]]:
    """Return group, resource, verb and names of the rights of the account."""
    bindings = [*of_kind(printed, "RoleBinding"), *of_kind(printed, "ClusterRoleBinding")]
    bound = {binding["roleRef"]["name"] for binding in bindings}
    return {
        (*right, tuple(rule.get("resourceNames", ())))
        for role in [*of_kind(printed, "Role"), *of_kind(printed, "ClusterRole")]
        for rule in role["rules"]
        if role["metadata"]["name"] in bound
        for right in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


@behaviour("webhooks/WH22")
@behaviour("webhooks/WH24")
def test_rights_are_those_on_the_objects_by_name() -> None:
    rights = granted(documents())
    name = ("ctrlhost-system-ctrlhost-webhooks-panels",)
    extensions = "apiextensions.k8s.io"
    watched = ("get", "list", "watch")
    expected = {("", "secrets", "create", ())}
    expected |= {("", "secrets", verb, (NAME,)) for verb in (*watched, "update")}
    for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        expected |= {("admissionregistration.k8s.io", plural, verb, name) for verb in (*watched, "patch")}
    expected |= {(extensions, "customresourcedefinitions", verb, (CRD,)) for verb in (*watched, "patch")}
    assert rights == expected | {right for right in rights if right[0] == "events.k8s.io"}
    # The certificates of cert-manager need none of it.
    assert granted(documents(cert_manager=True)) <= {(extensions, "customresourcedefinitions", "get", (CRD,))}


@behaviour("webhooks/WH22")
def test_cert_manager_makes_the_certificate_in_place_of_the_host() -> None:
    printed = documents(cert_manager=True)
    (issuer,), (certificate,) = of_kind(printed, "Issuer"), of_kind(printed, "Certificate")
    assert certificate["metadata"]["namespace"] == issuer["metadata"]["namespace"] == "ctrlhost-system"
    spec = certificate["spec"]
    assert spec["issuerRef"] == {"kind": "Issuer", "name": issuer["metadata"]["name"]}
    assert spec["dnsNames"] == list(service_names("ctrlhost-webhooks", "ctrlhost-system"))
    (deployment,) = of_kind(printed, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "--set=host.webhook_cert_dir=/etc/ctrlhost/webhooks" in container["args"]
    assert {"name": "webhooks", "mountPath": "/etc/ctrlhost/webhooks", "readOnly": True} in container["volumeMounts"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "webhooks")
    assert volume["secret"]["secretName"] == spec["secretName"]
    assert [item["path"] for item in volume["secret"]["items"]] == ["tls.crt", "tls.key"]
    injected = {"cert-manager.io/inject-ca-from": f"ctrlhost-system/{certificate['metadata']['name']}"}
    trusting = [*itertools.chain(*(of_kind(printed, kind) for kind in CONFIGURATIONS))]
    assert len(trusting) == 2
    for obj in [*trusting, *of_kind(printed, "CustomResourceDefinition")]:
        assert injected.items() <= obj["metadata"]["annotations"].items()


@behaviour("webhooks/WH24")
def test_plugins_without_webhooks_get_nothing_of_it(printed: Printed, distributions: Any) -> None:
    distributions.add("plain", "import ctrlhost\n\nplugin = ctrlhost.Plugin()\n")
    text = str(printed("--plugins=plain", "--cert-manager"))
    assert "webhook" not in text
    assert "cert-manager.io" not in text


class Refusals(WrappedTransport):
    """Keeps the requests that were answered with 403."""

    def __init__(self, transport: Any) -> None:
        super().__init__(transport)
        self.refused: list[str] = []

    def steps(self, request: HttpRequest) -> Steps[Response]:
        response = yield from super().steps(request)
        if response.status == 403:
            self.refused.append(f"{request.method} {request.path}")
        return response

    def open(self, request: HttpRequest) -> Any:
        try:
            return super().open(request)
        except ctrlhost.Forbidden:
            self.refused.append(f"WATCH {request.path}")
            raise


class Installed:
    """All manifests on the real server, and a host with the account of them; a context manager."""

    def __init__(self, server: ControlPlane, folder: Path, *, cert_manager: bool) -> None:
        self._ending = ExitStack()
        self.real = RealServer(Address(server.kubeconfig))
        self._ending.callback(self.real.clean)
        self.client, self.namespace = self.real.client, self.real.namespace
        self.printed = documents(self.namespace, cert_manager=cert_manager, host={"leader_elect": True})
        self.record = RequestRecord()
        self._cert_manager, self._folder = cert_manager, folder

    def __enter__(self) -> Self:
        with self._ending as ending:
            if self._cert_manager:
                for kind in ("Issuer", "Certificate"):
                    self._served(kind)
            for obj in self.printed:
                self.client.apply(obj)
            self._start()
            self._ending = ending.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def _served(self, kind: str) -> None:
        """Serve a kind of cert-manager, of which nothing runs here."""
        plural = f"{kind.lower()}s"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        spec = {
            "group": "cert-manager.io",
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [version],
        }
        metadata = {"name": f"{plural}.cert-manager.io"}
        self.client.create(
            {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}
            | {"spec": spec}
        )
        path = f"/apis/cert-manager.io/v1/{plural}"
        eventually(lambda: self.client.transport.request("GET", path).status == 200)

    def _start(self) -> None:
        kubeconfig = self.real.kubeconfig_for("ctrlhost")
        for role in of_kind(self.printed, "Role"):
            for rule in role["rules"]:
                if "resourceNames" not in rule:
                    right = rule["apiGroups"][0], rule["resources"][0], rule["verbs"][0]
                    self.real.wait_until_granted(kubeconfig, *right, self.namespace)
        self.transport = Refusals(RecordingTransport(ctrlhost.Client.load(kubeconfig).transport, self.record))
        self.account = ctrlhost.Client.over(self.transport, namespace=self.namespace)
        self._ending.callback(self.account.close)
        host = {"listen": "127.0.0.1:0", "webhook_listen": "127.0.0.1:0", "leader_elect": True}
        if self._cert_manager:
            self.authority = Authority(self._folder / "authority")
            name = f"ctrlhost-webhooks.{self.namespace}.svc"
            certificate, key = self.authority.issue(name, address="127.0.0.1")
            (self._folder / "tls.crt").write_text(certificate)
            (self._folder / "tls.key").write_text(key)
            host["webhook_cert_dir"] = str(self._folder)
        empty: dict[str, Any] = {"plugins": {}, "controllers": {}, "supervision": {}, "informers": {}}
        configuration = Configuration({**empty, "host": host}, "")
        self.host = Host(configuration.host, [panels()], configuration=configuration, client=self.account)
        self._ending.callback(self.host.stop, 5)
        self.host.start()
        eventually(lambda: self.host.webhook_address)

    def lead_here(self) -> None:
        """Replace the Service in the client configurations by the URL of the host."""
        for kind in (*CONFIGURATIONS, "CustomResourceDefinition"):
            (applied,) = of_kind(self.printed, kind)
            eventually(lambda: self._leads_here(applied))  # noqa: B023

    def _leads_here(self, applied: Manifest) -> bool:
        live = self.client.get(applied["apiVersion"], applied["kind"], applied["metadata"]["name"])
        for entry in live["webhooks"] if "webhooks" in live else [live["spec"]["conversion"]["webhook"]]:
            self._change(entry["clientConfig"])
        try:
            self.client.replace(live)
        except ctrlhost.Conflict:
            # The host has written the certificates meanwhile.
            return False
        return True

    def _change(self, config: dict[str, Any]) -> None:
        if self._cert_manager:
            # As cert-manager's injector does.
            config["caBundle"] = base64.b64encode(self.authority.pem.encode()).decode()
        config["url"] = f"https://{self.host.webhook_address}{config.pop('service')['path']}"


def panel(name: str, namespace: str, width: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Panel", "metadata": metadata, "spec": {"width": width}}


@pytest.fixture(params=["plain", "cert-manager"])
def installed(request: pytest.FixtureRequest, kube_apiserver: ControlPlane, tmp_path: Path) -> Iterator[Installed]:
    with Installed(kube_apiserver, tmp_path, cert_manager=request.param == "cert-manager") as installed:
        yield installed


@behaviour("webhooks/WH22")
def test_a_host_has_the_rights_that_it_uses_and_the_server_calls_it(installed: Installed) -> None:
    installed.lead_here()
    other = f"{installed.namespace}-objects"
    installed.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})

    def answer(namespace: str) -> str:
        try:
            installed.client.create(panel("wide", namespace, 10))
        except ctrlhost.ApiError as error:
            return error.message
        installed.client.delete(f"{GROUP}/v1", "Panel", "wide", namespace)
        return ""

    text = 'admission webhook "narrow.panels.ctrlhost.dev" denied the request: spec.width: 9 at most'
    eventually(lambda: answer(other) == text)
    # Nothing of its own namespace.
    assert answer(installed.namespace) == ""

    def converted() -> bool:
        try:
            installed.client.apply(panel("narrow", other, 3))
            old = installed.client.get(f"{GROUP}/v1alpha1", "Panel", "narrow", other)
        except ctrlhost.ApiError:
            return False
        return bool(old["spec"] == {"size": 3})

    eventually(converted)
    if not installed._cert_manager:
        # Renewals are years away.
        AuthoritySecret(installed.account, installed.namespace, installed.host.clock.time).rotate()
    assert installed.transport.refused == []
    used = installed.record.rights()
    read = {right[:2] for right in used if right[2] in ("list", "watch")}
    rights = {right[:3] for right in granted(installed.printed)}
    unused = {right for right in rights - used if right[2] not in ("list", "watch") or right[:2] not in read}
    # Further events of a series.
    assert unused - {("events.k8s.io", "events", "patch")} == set()
