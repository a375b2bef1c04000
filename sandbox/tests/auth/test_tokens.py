"""Tokens of service accounts: requested, used, reviewed, and invalid once an object they depend on is gone."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

from sandbox.tests.api.test_kubectl import KUBECTL
from sandbox.tests.api.test_kubectl import pytestmark as needs_kubectl
from tests.support.control_plane import KubeApiserver
from tests.support.http_client import Api
from tests.support.objects import core, pod
from tests.support.rbac_rig import AUTHENTICATION, api_of

AUDIENCE = "https://kubernetes.default.svc"
_serial = itertools.count(1)


@pytest.fixture
def robot(api: Api, ns: str) -> str:
    """The path that issues tokens of a service account."""
    api.post(core(ns, "serviceaccounts"), {"metadata": {"name": "robot"}}).expect(201)
    return f"{core(ns, 'serviceaccounts')}/robot/token"


def token_of(api: Api, path: str, **spec: Any) -> str:
    token: str = api.post(path, {"spec": spec}).expect(201)["status"]["token"]
    return token


def status_with(server: Sandbox, token: str) -> int:
    with Api(server.url, server.ca, token) as client:
        return client.get("/api").status


def review(api: Api, token: str, **spec: Any) -> dict[str, Any]:
    obj: dict[str, Any] = api.post(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": token, **spec}}).expect(201)
    return obj["status"]


def claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    payload: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return payload


def test_a_token_authenticates_its_account(server: Sandbox, api: Api, ns: str, robot: str) -> None:
    before = int(time.time())
    answer = api.post(robot, {"spec": {"expirationSeconds": 600}}).expect(201)
    assert (answer["kind"], answer["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert answer["spec"] == {"expirationSeconds": 600, "audiences": [AUDIENCE], "boundObjectRef": None}
    token = answer["status"]["token"]
    payload = claims(token)
    uid = api.get(core(ns, "serviceaccounts", "robot")).json()["metadata"]["uid"]
    assert payload["sub"] == f"system:serviceaccount:{ns}:robot"
    assert payload["kubernetes.io"] == {"namespace": ns, "serviceaccount": {"name": "robot", "uid": uid}}
    assert before + 600 <= payload["exp"] <= time.time() + 600
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(payload["exp"]))
    assert answer["status"]["expirationTimestamp"] == until
    with Api(server.url, server.ca, token) as client:
        who = client.post(f"{AUTHENTICATION}/selfsubjectreviews", {}).expect(201)["status"]["userInfo"]
    assert who["username"] == f"system:serviceaccount:{ns}:robot"
    assert who["groups"] == ["system:serviceaccounts", f"system:serviceaccounts:{ns}", "system:authenticated"]
    assert review(api, token) == {"authenticated": True, "user": who, "audiences": [AUDIENCE]}


def test_a_token_expires(server: Sandbox, api: Api, robot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    token = token_of(api, robot)
    assert status_with(server, token) == 200
    later = time.time() + 3601
    monkeypatch.setattr("ctrlhost_sandbox.apimachinery.clock.time", lambda: later)
    assert status_with(server, token) == 401
    assert review(api, token) == {"user": {}, "error": "invalid bearer token"}


def test_a_token_is_invalid_once_its_account_is_deleted_or_replaced(
    server: Sandbox, api: Api, ns: str, robot: str
) -> None:
    token = token_of(api, robot)
    api.delete(core(ns, "serviceaccounts", "robot")).expect(200)
    assert status_with(server, token) == 401
    api.post(core(ns, "serviceaccounts"), {"metadata": {"name": "robot"}}).expect(201)
    assert status_with(server, token) == 401
    assert status_with(server, token_of(api, robot)) == 200


def test_a_token_is_invalid_once_its_bound_object_is_deleted(server: Sandbox, api: Api, ns: str, robot: str) -> None:
    metadata = api.post(core(ns, "pods"), pod("p", serviceAccountName="robot")).expect(201)["metadata"]
    api.post(core(ns, "secrets"), {"metadata": {"name": "s"}}).expect(201)
    tokens = [
        token_of(api, robot, boundObjectRef={"apiVersion": "v1", "kind": kind, "name": name})
        for kind, name in (("Pod", "p"), ("Secret", "s"))
    ]
    assert review(api, tokens[0])["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [metadata["uid"]]
    assert [status_with(server, token) for token in tokens] == [200, 200]
    api.delete(core(ns, "pods", "p"), {"gracePeriodSeconds": 0}).expect(200)
    assert [status_with(server, token) for token in tokens] == [401, 200]
    api.delete(core(ns, "secrets", "s")).expect(200)
    assert [status_with(server, token) for token in tokens] == [401, 401]


def test_a_token_for_other_audiences_is_refused(server: Sandbox, api: Api, robot: str) -> None:
    token = token_of(api, robot, audiences=["vault", "bank"])
    assert status_with(server, token) == 401
    assert "error" in review(api, token)
    assert review(api, token, audiences=["bank", "shop"])["audiences"] == ["bank"]


def test_tampered_tokens_are_refused(server: Sandbox, api: Api, ns: str, robot: str) -> None:
    token = token_of(api, robot)
    head, body, signature = token.split(".")
    richer = claims(token) | {"sub": "system:serviceaccount:kube-system:root"}
    forged = base64.urlsafe_b64encode(json.dumps(richer).encode()).rstrip(b"=").decode()
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    for wrong in (
        f"{head}.{forged}.{signature}",
        f"{unsigned}.{forged}.",
        f"{head}.{body}.{signature[:-1]}",
        f"{head}.{body}.",
        "..",
        ".",
        "é",
        signature,
    ):
        assert status_with(server, wrong) == 401


def test_tokens_of_an_earlier_run_are_refused() -> None:
    sandbox = Sandbox()
    with sandbox, Api(sandbox.url, sandbox.ca, sandbox.token) as api:
        api.post(core("default", "serviceaccounts"), {"metadata": {"name": "robot"}}).expect(201)
        token = token_of(api, core("default", "serviceaccounts") + "/robot/token")
    with sandbox:
        assert status_with(sandbox, token) == 401


def test_a_kubeconfig_for_a_service_account_is_private_and_removed_at_stop() -> None:
    with Sandbox() as sandbox:
        with api_of(sandbox.kubeconfig) as api:
            api.post(core("default", "serviceaccounts"), {"metadata": {"name": "robot"}}).expect(201)
        path = sandbox.kubeconfig_for(service_account="default/robot")
        assert path.stat().st_mode & 0o777 == 0o600
        with api_of(path) as robot:
            user_info = robot.post(f"{AUTHENTICATION}/selfsubjectreviews", {}).expect(201)["status"]["userInfo"]
            assert user_info["username"] == "system:serviceaccount:default:robot"
    assert not path.exists()


@pytest.fixture(scope="module")
def both(server: Sandbox, kube_apiserver: KubeApiserver) -> Iterator[tuple[Api, Api]]:
    with api_of(server.kubeconfig) as ours, api_of(kube_apiserver.kubeconfig) as theirs:
        yield ours, theirs


WRONG = [
    {"spec": {"expirationSeconds": 10}},
    {"spec": {"expirationSeconds": 2**33}},
    {"metadata": {"name": "other"}, "spec": {}},
    {"metadata": {"namespace": "other"}, "spec": {}},
    {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}}},
    {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "none"}}},
    {"spec": {"expirationSeconds": "soon"}},
    {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1"},
]


@pytest.mark.parametrize("body", WRONG, ids=[json.dumps(body) for body in WRONG])
def test_invalid_requests_fail_as_on_a_real_server(both: tuple[Api, Api], body: dict[str, Any]) -> None:
    name = f"tokens-{next(_serial)}"
    answers = []
    for api in both:
        api.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
        api.post(core(name, "serviceaccounts"), {"metadata": {"name": "robot"}}).expect(201)
        response = api.post(f"{core(name, 'serviceaccounts')}/robot/token", body)
        value = response.json()
        details = value.get("details", {})
        causes = [(cause["reason"], cause.get("field")) for cause in details.get("causes", ())]
        answers.append((response.status, value["reason"], details.get("kind"), causes))
    assert answers[0] == answers[1]


@needs_kubectl
def test_kubectl_creates_tokens_and_answers_can_i(tmp_path: Any) -> None:
    with Sandbox(rbac=True) as sandbox:

        def kubectl(*arguments: str, kubeconfig: Any = sandbox.kubeconfig) -> str:
            command = [*KUBECTL, f"--kubeconfig={kubeconfig}", f"--cache-dir={tmp_path}", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            return done.stdout + done.stderr

        kubectl("create", "serviceaccount", "robot")
        kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
        kubectl("create", "rolebinding", "readers", "--role=reader", "--serviceaccount=default:robot")
        token = kubectl("create", "token", "robot", "--duration=20m").strip()
        assert claims(token)["sub"] == "system:serviceaccount:default:robot"
        robot = sandbox.kubeconfig_for(service_account="default/robot")
        assert kubectl("auth", "can-i", "list", "pods", kubeconfig=robot).strip() == "yes"
        assert kubectl("auth", "can-i", "delete", "pods", kubeconfig=robot).strip() == "no"
        assert kubectl("auth", "can-i", "list", "pods", "--as=ann").strip() == "no"
        listed = kubectl("auth", "can-i", "--list", kubeconfig=robot)
        assert any(line.split()[:1] == ["pods"] and "[get list]" in line for line in listed.splitlines()), listed
        assert "system:serviceaccount:default:robot" in kubectl("auth", "whoami", kubeconfig=robot)
        refused = kubectl("get", "secrets", kubeconfig=robot)
        assert "Error from server (Forbidden): secrets is forbidden" in refused
