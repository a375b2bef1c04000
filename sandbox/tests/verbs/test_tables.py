"""Tables, errors, names, hostile input, reviews."""

from __future__ import annotations

import json
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox
from ctrlhost_sandbox.errors import SandboxError

from sandbox.tests.conftest import Crd
from tests.support.http_client import TABLE, Api
from tests.support.objects import apps, config_map, core, deployment, ingress, lease, pod, service


def heads(table: dict[str, Any]) -> list[str]:
    return [column["name"] for column in table["columnDefinitions"]]


@pytest.mark.behaviour("sandbox/TB-01")
@pytest.mark.behaviour("sandbox/TB-02")
@pytest.mark.behaviour("sandbox/TB-03")
@pytest.mark.behaviour("sandbox/TB-07")
def test_pods_as_a_table(api: Api, ns: str) -> None:
    api.post(core(ns, "pods"), pod()).expect(201)
    table = api.get(core(ns, "pods"), TABLE).expect(200)
    assert heads(table)[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert next(item["priority"] for item in table["columnDefinitions"] if item["name"] == "Node") == 1
    (row,) = table["rows"]
    assert len(row["cells"]) == len(table["columnDefinitions"])
    assert row["cells"][:3] == ["p", "0/1", "Pending"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    stored = api.get(core(ns, "pods", "p")).expect(200)
    for include, wanted in (("None", None), ("Object", stored)):
        (row,) = api.get(core(ns, "pods"), TABLE, includeObject=include).expect(200)["rows"]
        assert row.get("object") == wanted
    api.get(core(ns, "pods"), TABLE, includeObject="Foo").fails(400)
    single = api.get(core(ns, "pods", "p"), TABLE).expect(200)
    assert len(single["rows"]) == 1
    assert single["metadata"]["resourceVersion"]


@pytest.mark.behaviour("sandbox/TB-04")
@pytest.mark.behaviour("sandbox/TB-05")
def test_custom_columns(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    columns = [
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".status.on"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    crd = make_crd(additionalPrinterColumns=columns).establish()
    api.post(crd.path(ns), crd.obj(size=3)).expect(201)
    table = api.get(crd.path(ns), TABLE).expect(200)
    assert heads(table) == ["Name", "Color", "Size", "On", "Since"]
    assert [item["priority"] for item in table["columnDefinitions"]] == [0, 0, 1, 0, 0]
    assert [item["type"] for item in table["columnDefinitions"]] == ["string", "string", "integer", "boolean", "date"]
    *cells, age = table["rows"][0]["cells"]
    assert cells == ["a", None, 3, None]
    assert re.fullmatch(r"\d+s", age)
    api.post(crd.path(ns), crd.obj("b", color="red")).expect(201)
    api.patch(crd.path(ns, "b") + "/status", {"status": {"on": True}}).expect(200)
    assert api.get(crd.path(ns), TABLE).expect(200)["rows"][1]["cells"][:4] == ["b", "red", None, True]
    plain = make_crd(names={"plural": "plains", "kind": "Plain"}).establish()
    assert heads(api.get(plain.path(ns), TABLE).expect(200)) == ["Name", "Age"]


@pytest.mark.behaviour("sandbox/TB-08")
def test_built_in_tables(api: Api, ns: str) -> None:
    role = {"metadata": {"name": "r"}, "rules": []}
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"
    cases: list[tuple[str, dict[str, Any] | None, str]] = [
        (core(ns, "services"), service(), "Name Type Cluster-IP External-IP Port(s) Age"),
        (apps(ns, "deployments"), deployment(), "Name Ready Up-to-date Available Age"),
        (core(ns, "secrets"), {"metadata": {"name": "s"}}, "Name Type Data Age"),
        (core(ns, "configmaps"), config_map(), "Name Data Age"),
        (f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", lease(), "Name Holder Age"),
        (f"/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses", ingress(), "Name Class Hosts Address Ports Age"),
        (
            f"/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices",
            {"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": []},
            "Name AddressType Ports Endpoints Age",
        ),
        (rbac, role, "Name Created At"),
        ("/api/v1/namespaces", None, "Name Status Age"),
        ("/api/v1/nodes", None, "Name Status Roles Age Version"),
    ]
    for path, body, wanted in cases:
        if body is not None:
            api.post(path, body).expect(201)
        table = api.get(path, TABLE).expect(200)
        assert " ".join(heads(table)).startswith(wanted), path
        assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])


@pytest.mark.behaviour("sandbox/ER-01")
def test_every_error_is_a_status(api: Api, ns: str) -> None:
    path = core(ns, "configmaps")
    api.request("GET", path, headers={"Authorization": "Bearer wrong"}).fails(401, "Unauthorized")
    api.delete("/api/v1/namespaces/default").fails(403, "Forbidden")
    api.get(f"{path}/none").fails(404, "NotFound")
    api.put(f"{path}/none", config_map("none")).fails(404, "NotFound")
    api.post(path, b"x").fails(400, "BadRequest")
    api.request("TRACE", path).fails(405, "MethodNotAllowed")
    api.get(path, "text/html").fails(406, "NotAcceptable")
    api.post(path, config_map()).expect(201)
    api.post(path, config_map()).fails(409, "AlreadyExists")
    api.post(path, config_map("b", {"k": "x" * 4_000_000})).fails(413, "RequestEntityTooLarge")
    api.post(path, config_map("b"), content_type="text/plain").fails(415, "UnsupportedMediaType")
    api.post(path, config_map("A")).fails(422, "Invalid")
    api.post(path, config_map("b", resourceVersion="1")).fails(500)


@pytest.mark.behaviour("sandbox/ER-02")
def test_a_token_is_required(api: Api) -> None:
    answer = api.request("GET", "/api/v1/namespaces", headers={"Authorization": "Bearer wrong"})
    answer.fails(401, "Unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    api.request("GET", "/apis", headers={"Authorization": ""}).fails(401, "Unauthorized")


@pytest.mark.behaviour("sandbox/ER-03")
@pytest.mark.parametrize("name", ["-a", "a.", "A", "a" * 254, "a..b", ""])
def test_invalid_names_are_refused(api: Api, ns: str, name: str) -> None:
    api.post(core(ns, "configmaps"), config_map(name)).fails(422, "Invalid", "metadata.name")


@pytest.mark.behaviour("sandbox/ER-04")
def test_names_of_services_and_namespaces_are_labels(api: Api, ns: str) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "a.b"}}).fails(422, "Invalid", "metadata.name")
    api.post(core(ns, "services"), service("a.b")).fails(422, "Invalid", "metadata.name")
    # Since 1.34 the name of a Service may begin with a digit.
    api.post(core(ns, "services"), service("1a")).expect(201)


@pytest.mark.behaviour("sandbox/ER-05")
@pytest.mark.behaviour("sandbox/ER-06")
@pytest.mark.behaviour("sandbox/ER-07")
def test_invalid_metadata_is_refused(api: Api, ns: str) -> None:
    path = core(ns, "configmaps")
    large = config_map(annotations={"a": "x" * 300 * 1024})
    api.post(path, large).fails(422, "Invalid", "metadata.annotations", "FieldValueTooLong")
    api.post(path, config_map(finalizers=["bad finalizer"])).fails(422, "Invalid")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    owners = [{**owner, "name": name, "uid": name} for name in "xy"]
    api.post(path, config_map(ownerReferences=owners)).fails(422, "Invalid", "metadata.ownerReferences")


@pytest.mark.behaviour("sandbox/ER-08")
def test_all_causes_are_reported_at_once(api: Api, ns: str, widgets: Crd) -> None:
    status = api.post(widgets.path(ns), widgets.obj("A", size="x", color=1)).fails(422, "Invalid")
    assert {item["field"] for item in status["details"]["causes"]} >= {"metadata.name", "spec.size", "spec.color"}


@pytest.mark.behaviour("sandbox/ER-09")
def test_names_of_roles_may_have_colons(api: Api, ns: str) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"
    api.post(path, {"metadata": {"name": "a:b"}}).expect(201)
    api.post(path, {"metadata": {"name": "a/b"}}).fails(422, "Invalid", "metadata.name")


@pytest.mark.behaviour("sandbox/ER-10")
def test_unsupported_methods_are_refused(api: Api, ns: str) -> None:
    assert api.patch(core(ns, "configmaps"), {}).status == 405
    assert api.post(core(ns, "configmaps", "a"), config_map()).status == 405


DEEP = b"[" * 20_000 + b"]" * 20_000
BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%b]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)
)


@pytest.mark.behaviour("sandbox/RO-01")
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"metadata":{"name":"a"},KIND,"spec":' + DEEP + b"}", "application/json"),
        (b'{"metadata":{"name":"a"},KIND,"spec":{"color":"x"', "application/json"),
        (b"metadata: {name: a}\n" + BOMB, "application/yaml"),
        (b'{"metadata":{"name":"a"},KIND,"spec":{"size":1e400}}', "application/json"),
        (b'{"metadata":{"name":"a"},KIND,"spec":{"color":"\xff\xfe"}}', "application/json"),
        (b'{"metadata":{"name":"a"},KIND,"spec":{"color":"\\ud800"}}', "application/json"),
        (b'{"metadata":{"name":"\\ud800"},KIND}', "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"null", "application/json"),
        (b"[]", "application/json"),
        (b'{"metadata":[],KIND}', "application/json"),
        (b'{"metadata":{"name":"a","labels":{"a":1}},KIND}', "application/json"),
    ],
)
def test_hostile_bodies_are_refused(api: Api, ns: str, widgets: Crd, body: bytes, content_type: str) -> None:
    kind = b'"apiVersion":"%s/v1","kind":"Widget"' % widgets.group.encode()
    if content_type == "application/yaml":
        body += kind.replace(b",", b"\n").replace(b":", b": ")
    answer = api.post(widgets.path(ns), body.replace(b"KIND", kind), content_type=content_type)
    assert 400 <= answer.status < 500
    api.get(widgets.path(ns, "a")).fails(404)
    api.post(widgets.path(ns), widgets.obj()).expect(201)


@pytest.mark.behaviour("sandbox/RO-02")
@pytest.mark.parametrize(
    "body", [b"\x00\x01\x02", b"k8s\0", b"k8s\0\xff\xff\xff\xff", b"k8s\0\n\xff\x7fv1", b"k8s\0" + b"\xff" * 20]
)
def test_hostile_protobuf_is_refused(api: Api, ns: str, body: bytes) -> None:
    answer = api.post(core(ns, "configmaps"), body, content_type="application/vnd.kubernetes.protobuf")
    assert answer.status in (400, 415)
    api.get(core(ns, "configmaps")).expect(200)


@pytest.mark.behaviour("sandbox/RO-03")
@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
def test_foreign_hosts_and_origins_are_refused(api: Api, ns: str, headers: dict[str, str]) -> None:
    path = core(ns, "configmaps")
    for method, target, body in (
        ("GET", "/version", None),
        ("GET", "/healthz", None),
        ("GET", path, None),
        ("POST", path, config_map()),
        ("DELETE", path, None),
    ):
        api.request(method, target, body, headers=headers).fails(403, "Forbidden")
    api.get(core(ns, "configmaps", "kube-root-ca.crt")).expect(200)
    api.get(core(ns, "configmaps", "a")).fails(404)


@pytest.mark.behaviour("findings/FS24")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_names_are_served_with_any_port(api: Api, name: str) -> None:
    for host in (name, f"{name}:1", f"{name}:65535"):
        api.request("GET", "/version", headers={"Host": host}).expect(200)
    for host in (f"{name}.evil.example", f"evil.{name}:443", f"evil.example:{name}"):
        api.request("GET", "/version", headers={"Host": host}).fails(403, "Forbidden")


@pytest.mark.behaviour("findings/FS24")
def test_the_page_names_the_served_hosts() -> None:
    page = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text()
    assert "`127.0.0.1`, `localhost` or `[::1]`, with any port" in " ".join(page.split())


@pytest.mark.behaviour("sandbox/RO-04")
def test_the_kubeconfig_is_private(server: Sandbox) -> None:
    assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o600
    assert server.url.startswith("https://127.0.0.1:")
    with Api(server.url.replace("https:", "http:"), token=server.token) as plain:
        answer = plain.get("/api")
    assert (answer.status, answer.body) == (400, b"Client sent an HTTP request to an HTTPS server.\n")


@pytest.mark.behaviour("sandbox/RO-05")
def test_without_tls_there_is_no_token() -> None:
    with Sandbox(insecure_http=True) as sandbox, Api(sandbox.url) as plain:
        assert sandbox.url.startswith("http://127.0.0.1:")
        assert sandbox.token == ""
        plain.get("/api/v1/namespaces").expect(200)
        # No other address of the machine is bound, not even another one of loopback.
        with socket.socket() as other:
            other.settimeout(5)
            assert other.connect_ex(("127.0.0.2", int(sandbox.url.rpartition(":")[2]))) != 0
    for expose in (False, True):
        with pytest.raises(SandboxError, match="loopback addresses only"):
            Sandbox(insecure_http=True, address="0.0.0.0", expose=expose)


@pytest.mark.behaviour("sandbox/AU-01")
@pytest.mark.behaviour("sandbox/AU-02")
@pytest.mark.behaviour("sandbox/AU-03")
@pytest.mark.behaviour("sandbox/AU-04")
def test_reviews(api: Api) -> None:
    base = "/apis/authorization.k8s.io/v1"
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert api.post(f"{base}/selfsubjectaccessreviews", {"spec": spec}).expect(201)["status"]["allowed"] is True
    status = api.post(f"{base}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}).expect(201)["status"]
    assert status.keys() >= {"resourceRules", "nonResourceRules", "incomplete"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    assert api.post(path, {}).expect(201)["status"]["userInfo"]["username"]
    answer = api.post(path, {}, headers={"Impersonate-User": "alice"})
    assert answer.expect(201)["status"]["userInfo"]["username"] == "alice"


def test_an_error_in_a_table_request_stays_a_status(api: Api, ns: str) -> None:
    assert json.loads(api.get(core(ns, "pods", "none"), TABLE).body)["kind"] == "Status"
