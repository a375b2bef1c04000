"""What monitors and other services ask for: keys, metrics, component statuses; on both servers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from ctrlhost_sandbox import Sandbox
from prometheus_client.parser import text_string_to_metric_families

from tests.support.http_client import TABLE, Api, names
from tests.support.objects import config_map, core
from tests.support.rbac_rig import api_of


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def number(text: str) -> int:
    return int.from_bytes(decoded(text))


def verify(token: str, key: dict[str, Any]) -> dict[str, Any]:
    """Verify a token with a published key, as another service does, and return its claims."""
    head, _, signature = token.rpartition(".")
    header, claims = (json.loads(decoded(part)) for part in head.split("."))
    assert (header["kid"], header["alg"]) == (key["kid"], key["alg"])
    if key["kty"] == "EC":
        assert key["crv"] == "P-256"
        public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1()).public_key()
        raw = decoded(signature)
        pair = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
        public.verify(pair, head.encode(), ec.ECDSA(hashes.SHA256()))
    else:
        modulus = rsa.RSAPublicNumbers(number(key["e"]), number(key["n"])).public_key()
        modulus.verify(decoded(signature), head.encode(), padding.PKCS1v15(), hashes.SHA256())
    payload: dict[str, Any] = claims
    return payload


@pytest.mark.behaviour("findings/FS25")
def test_others_can_verify_tokens_of_service_accounts(each_api: Api, namespace: str) -> None:
    issuer = each_api.get("/.well-known/openid-configuration")
    document = issuer.expect(200)
    path = document["jwks_uri"].partition("://")[2].partition("/")[2]
    assert path == "openid/v1/jwks"
    published = each_api.get(f"/{path}")
    assert published.headers["content-type"] == "application/jwk-set+json"
    assert issuer.headers["content-type"] == "application/json"
    assert published.headers["cache-control"] == issuer.headers["cache-control"] == "public, max-age=3600"
    (key,) = published.expect(200)["keys"]
    assert key["use"] == "sig"
    assert document["id_token_signing_alg_values_supported"] == [key["alg"]]
    assert document["response_types_supported"] == ["id_token"]
    assert document["subject_types_supported"] == ["public"]
    accounts = core(namespace, "serviceaccounts")
    each_api.post(accounts, {"metadata": {"name": "a"}}).expect(201)
    token = each_api.post(f"{accounts}/a/token", {"spec": {"audiences": ["vault"]}}).expect(201)["status"]["token"]
    claims = verify(token, key)
    assert (claims["iss"], claims["aud"]) == (document["issuer"], ["vault"])
    assert claims["sub"] == f"system:serviceaccount:{namespace}:a"


@pytest.mark.behaviour("findings/FS25")
@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_changed_token_is_refused(each_api: Api, namespace: str, part: int) -> None:
    accounts = core(namespace, "serviceaccounts")
    each_api.post(accounts, {"metadata": {"name": "a"}}).expect(201)
    token = each_api.post(f"{accounts}/a/token", {"spec": {}}).expect(201)["status"]["token"]
    review = {"spec": {"token": token}}
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert each_api.post(reviews, review).expect(201)["status"]["authenticated"]
    parts = token.split(".")
    for changed in (parts[part][:-2], parts[part] + "A", "", "é", parts[part][::-1], f"{parts[part]}=="):
        other = {"spec": {"token": ".".join([*parts[:part], changed, *parts[part + 1 :]])}}
        assert "authenticated" not in each_api.post(reviews, other).expect(201)["status"], changed


def samples(api: Api, name: str) -> list[tuple[dict[str, str], float]]:
    """Return the samples of a metric: labels and value."""
    answer = api.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.body.decode())
    return [(sample.labels, sample.value) for family in families for sample in family.samples if sample.name == name]


def requests(api: Api, **wanted: str) -> float:
    series = samples(api, "apiserver_request_total")
    return sum(value for labels, value in series if wanted.items() <= labels.items())


@pytest.mark.behaviour("findings/FS25")
def test_metrics_count_requests_watches_and_objects(each_api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps")
    post = {"verb": "POST", "resource": "configmaps", "version": "v1", "code": "201", "scope": "resource"}
    kept, tried = (requests(each_api, **post, dry_run=mode) for mode in ("", "All"))
    for count in range(3):
        each_api.post(path, config_map(f"m{count}")).expect(201)
    each_api.post(path, config_map("m3"), dryRun="All").expect(201)
    assert requests(each_api, **post, dry_run="") == kept + 3
    assert requests(each_api, **post, dry_run="All") == tried + 1
    missing = {"verb": "GET", "resource": "configmaps", "code": "404"}
    before = requests(each_api, **missing)
    each_api.get(f"{path}/missing").fails(404)
    assert requests(each_api, **missing) == before + 1
    watch = each_api.watch(path, resourceVersion=each_api.revision(path))
    open_watches = samples(each_api, "apiserver_longrunning_requests")
    wanted = {"verb": "WATCH", "group": "", "resource": "configmaps", "version": "v1"}
    assert sum(value for labels, value in open_watches if wanted.items() <= labels.items()) >= 1
    watch.close()
    objects = samples(each_api, "apiserver_resource_objects")
    assert {"group": "", "resource": "configmaps"} in [labels for labels, _ in objects]


@pytest.mark.behaviour("findings/FS25")
def test_names_of_a_client_make_no_metrics(api: Api) -> None:
    for path in ("/api/v1/nonesuch", "/x/y", "/apis/a.b/v1/c", core("default", "pods", "p/nonesuch")):
        api.get(path)
    text = api.get("/metrics").body
    for name in (b"nonesuch", b'"a.b"', b'"x'):
        assert name not in text


@pytest.mark.behaviour("findings/FS25")
def test_only_who_may_reads_them(api: Api) -> None:
    del api
    with Sandbox(rbac=True) as sandbox:
        account = sandbox.kubeconfig_for(service_account="default/default")
        monitor = sandbox.kubeconfig_for(user="prometheus", groups=["system:monitoring"])
        other = sandbox.kubeconfig_for(user="ann")
        for kubeconfig, path, code in (
            (account, "/openid/v1/jwks", 200),
            (account, "/metrics", 403),
            (monitor, "/metrics", 200),
            (other, "/openid/v1/jwks", 403),
            (other, "/.well-known/openid-configuration", 403),
        ):
            with api_of(kubeconfig) as client:
                assert client.get(path).status == code, (kubeconfig, path)


@pytest.mark.behaviour("findings/FS25")
def test_component_statuses(each_api: Api) -> None:
    path = "/api/v1/componentstatuses"
    assert set(names(each_api.get(path))) == {"controller-manager", "etcd-0", "scheduler"}
    warned = each_api.get(f"{path}/etcd-0")
    obj = warned.expect(200)
    assert (obj["kind"], obj["metadata"]) == ("ComponentStatus", {"name": "etcd-0"})
    assert obj["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
    assert warned.warnings == ['299 - "v1 ComponentStatus is deprecated in v1.19+"']
    each_api.get(f"{path}/x").fails(404, "NotFound")
    table = each_api.get(path, TABLE).expect(200)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Status", "Message", "Error"]
    assert ["etcd-0", "Healthy", "ok", ""] in [row["cells"] for row in table["rows"]]
    # What does not run is not healthy.
    scheduler = each_api.get(f"{path}/scheduler").expect(200)["conditions"][0]
    assert scheduler["status"] == "False"
