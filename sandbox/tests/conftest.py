"""A sandbox and a plain HTTP client over TLS; each test has its own namespace and CRD group."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ctrlhost_sandbox import Options, Sandbox

from tests.support.compared import Pair
from tests.support.control_plane import ControlPlane, KubeApiserver, SandboxControlPlane
from tests.support.http_client import Api
from tests.support.objects import core
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually

_serial = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Sandbox]:
    """One sandbox for all tests that do not stop it; pods start without delay."""
    options = Options(
        admin=True,
        pod_start_delay=0.0,
        pod_ready_delay=0.0,
        pod_run_delay=0.0,
        pod_stop_delay=0.0,
        load_balancer_delay=0.0,
    )
    with Sandbox(options=options) as sandbox:
        yield sandbox


@pytest.fixture
def api(server: Sandbox) -> Iterator[Api]:
    """A client of the administrator."""
    with Api(server.url, server.ca, server.token) as client:
        yield client


@pytest.fixture
def ns(api: Api) -> str:
    """The test's own namespace, with its initial objects."""
    name = f"t-{next(_serial)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
    eventually(lambda: api.get(core(name, "configmaps", "kube-root-ca.crt")).status == 200)
    return name


@pytest.fixture
def each_api(control_plane: ControlPlane) -> Iterator[Api]:
    """The administrator of a sandbox, then of a real kube-apiserver; `namespace` is the test's own there."""
    with api_of(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
def pair(sandbox_control_plane: SandboxControlPlane, kube_apiserver: KubeApiserver) -> Iterator[Pair]:
    """The administrators of a sandbox and of a real kube-apiserver, for equal requests to both."""
    name = f"pair-{next(_serial)}"
    with api_of(sandbox_control_plane.kubeconfig) as ours, api_of(kube_apiserver.kubeconfig) as theirs:
        for api in (ours, theirs):
            api.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
        yield Pair(ours, theirs, name)


@pytest.fixture
def pair_crd(pair: Pair, group: str) -> Callable[..., Crd]:
    """Make CRDs of the test's own group on both servers, and wait until they are served."""

    def make(**changes: Any) -> Crd:
        for api in (pair.theirs, pair.ours):
            crd = Crd(api, crd_body(group, **changes)).establish()
            path = crd.path(pair.namespace)
            eventually(lambda api=api, path=path: api.get(path).status == 200)
        return crd

    return make


class Crd:
    """An established CRD, and the paths below it."""

    def __init__(self, api: Api, body: dict[str, Any]) -> None:
        self.api = api
        self.body = body
        self.group = body["spec"]["group"]
        self.plural = body["spec"]["names"]["plural"]
        self.kind = body["spec"]["names"]["kind"]
        self.name = f"{self.plural}.{self.group}"
        self.url = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{self.name}"

    def path(self, namespace: str, name: str = "", version: str = "v1") -> str:
        base = f"/apis/{self.group}/{version}/namespaces/{namespace}/{self.plural}"
        return f"{base}/{name}" if name else base

    def obj(self, name: str = "a", **spec: Any) -> dict[str, Any]:
        obj = {"apiVersion": f"{self.group}/v1", "kind": self.kind, "metadata": {"name": name}}
        return {**obj, "spec": spec} if spec else obj

    def establish(self) -> Crd:
        self.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", self.body).expect(201)
        eventually(self.established)
        return self

    def conditions(self) -> dict[str, tuple[str, str]]:
        status = self.api.get(self.url).json().get("status") or {}
        return {item["type"]: (item["status"], item["reason"]) for item in status.get("conditions") or ()}

    def established(self) -> bool:
        return self.conditions().get("Established", ("", ""))[0] == "True"


def crd_body(group: str, **changes: Any) -> dict[str, Any]:
    """Return a CRD of the kind Widget; `changes` apply to its version, except `names` and `scope`."""
    names = {"plural": "widgets", "kind": "Widget", **changes.pop("names", {})}
    schema = changes.pop("schema", None) or {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    scope = changes.pop("scope", "Namespaced")
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
        **changes,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [version]},
    }


@pytest.fixture
def group() -> str:
    """An API group that no other test uses."""
    return f"g{next(_serial)}.t.example.org"


@pytest.fixture
def make_crd(api: Api, group: str) -> Callable[..., Crd]:
    """Return a factory of CRDs in the test's own group."""

    def make(**changes: Any) -> Crd:
        return Crd(api, crd_body(group, **changes))

    return make


@pytest.fixture
def each_crd(each_api: Api, namespace: str, group: str) -> Callable[..., Crd]:
    """Make CRDs of the test's own group on `each_api`, and wait until they are served."""

    def make(**changes: Any) -> Crd:
        crd = Crd(each_api, crd_body(group, **changes)).establish()
        eventually(lambda: each_api.get(crd.path(namespace)).status == 200)
        return crd

    return make


@pytest.fixture
def widgets(make_crd: Callable[..., Crd]) -> Crd:
    """The kind Widget, established."""
    return make_crd().establish()
