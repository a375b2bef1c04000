"""The test endpoints, and the options of a sandbox."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Options, Sandbox
from ctrlhost_sandbox.errors import SandboxError

from sandbox.tests.conftest import crd_body
from tests.support.http_client import Api, names
from tests.support.objects import config_map, core, deployment, service
from tests.support.waiting import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_the_endpoints_exist_only_on_request(api: Api) -> None:
    with Sandbox() as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as plain:
        plain.get("/sandbox/v1/stats").expect(404)
        plain.post("/sandbox/v1/reset", {}).expect(405)
    for path in ("/sandbox", "/sandbox/v1", "/sandbox/v2/stats", "/sandbox/v1/../../etc/passwd", "/sandbox/v1/stats/x"):
        assert api.get(path).status == 404


@pytest.mark.parametrize("rbac", [False, True])
def test_a_reset_keeps_only_the_initial_objects(rbac: bool) -> None:
    with (
        Sandbox(rbac=rbac, options=Options(admin=True)) as sandbox,
        Api(sandbox.url, sandbox.ca, sandbox.token) as api,
    ):
        eventually(lambda: sandbox.at_rest)
        before = api.get("/sandbox/v1/stats").json()["objects"]
        api.post("/api/v1/namespaces", {"metadata": {"name": "mine"}}).expect(201)
        held = config_map("held", finalizers=["example.org/never"])
        api.post(core("mine", "configmaps"), held).expect(201)
        api.post("/apis/apps/v1/namespaces/default/deployments", deployment()).expect(201)
        api.post(core("default", "services"), service("s", clusterIP="10.96.0.77")).expect(201)
        api.post(CRDS, crd_body("reset.test")).expect(201)
        path = "/apis/reset.test/v1/namespaces/default/widgets"
        eventually(lambda: api.get(path).status == 200)
        api.post(path, {"apiVersion": "reset.test/v1", "kind": "Widget", "metadata": {"name": "w"}}).expect(201)
        watch = api.watch(core("mine", "configmaps"), resourceVersion=api.revision(core("mine", "configmaps")))
        api.post("/sandbox/v1/reset", {}).expect(200)
        assert watch.next()["type"] == "DELETED"
        eventually(lambda: api.get(path).status == 404)
        eventually(lambda: api.get("/sandbox/v1/stats").json()["objects"] == before)
        assert names(api.get("/api/v1/namespaces")) == ["default", "kube-node-lease", "kube-public", "kube-system"]
        api.post(core("default", "services"), service("again", clusterIP="10.96.0.77")).expect(201)


def test_faults_hit_only_matching_requests_and_as_often_as_requested(api: Api, ns: str) -> None:
    path = core(ns, "configmaps")
    api.post("/sandbox/v1/fault", {"code": 409, "verb": "create", "resource": "configmaps", "times": 2}).expect(200)
    api.get(path).expect(200)
    api.post(core(ns, "secrets"), {"metadata": {"name": "s"}}).expect(201)
    for _ in range(2):
        assert api.get("/sandbox/v1/stats").json()["faults"] > 0
        api.post(path, config_map()).fails(409, "Conflict")
    api.post(path, config_map()).expect(201)
    assert api.get("/sandbox/v1/stats").json()["faults"] == 0


def test_a_fault_may_set_retry_after(api: Api, ns: str) -> None:
    api.post("/sandbox/v1/fault", {"code": 429, "resource": "pods", "retryAfterSeconds": 7}).expect(200)
    answer = api.get(core(ns, "pods"))
    assert answer.fails(429, "TooManyRequests")["details"] == {"retryAfterSeconds": 7}
    assert answer.headers["Retry-After"] == "7"
    api.get(core(ns, "pods")).expect(200)


@pytest.mark.parametrize(
    "body", [{}, {"code": 200}, {"code": 500, "times": 0}, {"code": 500, "wat": 1}, {"code": "x"}, []]
)
def test_an_invalid_fault_is_refused(api: Api, body: Any) -> None:
    api.post("/sandbox/v1/fault", body).fails(400, "BadRequest")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"pod_start_delay": -1.0}, "pod_start_delay must be a number of seconds, at least 0, got -1.0"),
        ({"load_balancer_delay": float("nan")}, "load_balancer_delay must be"),
        ({"pod_cidr": "10.0.0.1/8"}, "pod_cidr must be a network"),
        ({"service_cidr": "here"}, "service_cidr must be a network"),
        ({"load_balancer_cidr": "10.0.0.0/31"}, "10.0.0.0/31 is too small"),
        ({"version": "1.36"}, "version must be three numbers"),
    ],
)
def test_invalid_options_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        Options(**option)


def test_options_apply_where_the_argument_is_omitted() -> None:
    options = Options(controllers=frozenset(), crd_conditions="external", version="1.31.2", service_cidr="10.7.0.0/16")
    with Sandbox(options=options) as sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        assert api.get("/version").json()["minor"] == "31"
        assert api.get(core("default", "services", "kubernetes")).json()["spec"]["clusterIP"] == "10.7.0.1"
        api.post(CRDS, crd_body("options.test")).expect(201)
        eventually(lambda: sandbox.at_rest)
        assert not api.get(f"{CRDS}/widgets.options.test").json()["status"].get("conditions")
        api.post("/api/v1/namespaces", {"metadata": {"name": "mine"}}).expect(201)
        assert names(api.get(core("mine", "serviceaccounts"))) == []


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/api/v1/namespaces/..%2f..%2f..%2fetc/configmaps/passwd",
        "/api/v1/namespaces/default/configmaps/..%2f..%2fetc%2fpasswd",
        "/api/v1/namespaces/default/pods/..%2f..%2fetc%2fpasswd/log",
        "/openapi/v3/..%2f..%2f..%2fetc%2fpasswd",
        "/openapi/v3/apis/..%2f..%2fetc/v1",
        "/sandbox/v1/..%2f..%2fetc%2fpasswd",
        "/file:%2f%2f%2fetc%2fpasswd",
        "/apis/file%3A%2F%2F%2Fetc/v1/passwd",
    ],
)
def test_no_path_reads_a_file(api: Api, path: str) -> None:
    # Sent unchanged: a client library would normalize it.
    pool = api.pool.connection_from_url(api.url)
    response = pool.urlopen("GET", path, headers={"Authorization": f"Bearer {api.token}"}, retries=False)
    assert 400 <= response.status < 500
    assert b"root:" not in response.data


@pytest.mark.parametrize(
    ("tagged", "code"),
    [
        ("!!python/object/apply:open ['/etc/passwd']", 400),
        ("!!python/object/apply:open {a: /etc/passwd}", 400),
        ("!!binary /etc/passwd", 400),
        ("!!python/name:os.environ ''", 201),
        ("!include /etc/passwd", 201),
    ],
)
def test_no_body_reads_a_file(each_api: Api, namespace: str, tagged: str, code: int) -> None:
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {tagged}}}\n".encode()
    answer = each_api.post(core(namespace, "configmaps"), body, content_type="application/yaml")
    assert answer.status == code, answer.body
    if code == 201:
        # Tags that say nothing about JSON are ignored.
        assert answer.json()["data"]["a"] in ("", "/etc/passwd")
