"""Invalid objects and warnings, on the sandbox and on a real kube-apiserver: the answers are equal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.compared import Compare
from tests.support.http_client import Api
from tests.support.objects import container, deployment, service
from tests.support.waiting import eventually

NAMESPACE = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES, PODS = f"{NAMESPACE}/services", f"{NAMESPACE}/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, CLUSTER_ROLES = f"{RBAC}/namespaces/default/roles", f"{RBAC}/clusterroles"
BINDINGS, CLUSTER_BINDINGS = f"{RBAC}/namespaces/default/rolebindings", f"{RBAC}/clusterrolebindings"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
URLS: dict[str, Any] = {"verbs": ["get"], "nonResourceURLs": ["/x"]}
Case = tuple[str, dict[str, Any], str]


def rolling(**fields: Any) -> tuple[str, dict[str, Any]]:
    return DEPLOYMENTS, deployment(strategy={"type": "RollingUpdate", "rollingUpdate": fields})


def port(**fields: Any) -> tuple[str, dict[str, Any]]:
    return SERVICES, service("s", {"port": 80, **fields})


def role(**rule: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "rules": [rule]}


def bound(*subjects: dict[str, Any], **reference: Any) -> dict[str, Any]:
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    return {"metadata": {"name": "b"}, "roleRef": {**group, **reference}, "subjects": list(subjects)}


def subject(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "name": "a", **fields}


def sliced(
    address: str = "1.2.3.4", kind: str = "IPv4", ports: Any = (), **endpoint: Any
) -> tuple[str, dict[str, Any]]:
    endpoints = [{"addresses": [address] if address else [], **endpoint}]
    body = {"metadata": {"name": "e"}, "addressType": kind, "endpoints": endpoints, "ports": list(ports)}
    return SLICES, body


UNAVAILABLE = "spec.strategy.rollingUpdate.maxUnavailable"
ADDRESS = "endpoints[0].addresses[0]"
INVALID: dict[str, Case] = {
    "nothing may change": (*rolling(maxSurge=0, maxUnavailable=0), UNAVAILABLE),
    "nothing may change, in percent": (*rolling(maxSurge="0%", maxUnavailable=0), UNAVAILABLE),
    "negative": (*rolling(maxUnavailable=-1), UNAVAILABLE),
    "not a share": (*rolling(maxSurge="1x", maxUnavailable="-5%"), UNAVAILABLE),
    "more than all": (*rolling(maxUnavailable="101%"), UNAVAILABLE),
    "deadline": (DEPLOYMENTS, deployment(progressDeadlineSeconds=5, minReadySeconds=9), "spec.progressDeadlineSeconds"),
    "nodePort of a ClusterIP": (*port(nodePort=30080), "spec.ports[0].nodePort"),
    "targetPort": (*port(targetPort=70000), "spec.ports[0].targetPort"),
    **{
        f"targetPort {name}": (*port(targetPort=name), "spec.ports[0].targetPort")
        for name in ("a" * 16, "HTTP", "a_b", "80", "a--b")
    },
    "URLs in a Role": (ROLES, role(**URLS), "rules[0].nonResourceURLs"),
    "URLs and resources": (ROLES, role(**URLS, apiGroups=[""], resources=["pods"]), "rules[0].nonResourceURLs"),
    "URLs and names": (CLUSTER_ROLES, role(**URLS, resourceNames=["a"]), "rules[0].nonResourceURLs"),
    "no resources": (ROLES, role(verbs=["get"]), "rules[0].resources"),
    "no rule": (CLUSTER_ROLES, role(), "rules[0].verbs"),
    **{
        f"{kind} of another group": (path, bound(subject(kind, apiGroup="x")), "subjects[0].apiGroup")
        for kind in ("User", "Group")
        for path in (BINDINGS, CLUSTER_BINDINGS)
    },
    "account of a group": (
        BINDINGS,
        bound(subject("ServiceAccount", namespace="n", apiGroup="x")),
        "subjects[0].apiGroup",
    ),
    "unknown subject": (BINDINGS, bound(subject("X")), "subjects[0].kind"),
    "role of another group": (BINDINGS, bound(apiGroup="x", kind="Foo", name=""), "roleRef.apiGroup"),
    "role's name": (CLUSTER_BINDINGS, bound(name="a/b"), "roleRef.name"),
    "slice's protocol": (*sliced(ports=[{"port": 80, "protocol": "X"}]), "ports[0].protocol"),
    "slice's port": (*sliced(ports=[{"name": "A_"}]), "ports[0].name"),
    "slice's long port": (*sliced(ports=[{"name": "a" * 64}]), "ports[0].name"),
    "slice's ports": (*sliced(ports=[{"port": 80}, {"port": 81}]), "ports[1].name"),
    "slice's application": (*sliced(ports=[{"appProtocol": "a b"}]), "ports[0].appProtocol"),
    **{
        f"address {text}": (*sliced(text), ADDRESS)
        for text in ("x", "127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "1.2.3.04")
    },
    "address of another family": (*sliced("2001:db8::1"), "endpoints[0].addresses"),
    "address of a larger family": (*sliced("1.2.3.4", "IPv6"), "endpoints[0].addresses"),
    "address in capitals": (*sliced("2001:DB8::1", "IPv6"), ADDRESS),
    "name as an address": (*sliced("A b", "FQDN"), ADDRESS),
    "no address": (*sliced(""), "endpoints[0].addresses"),
    "endpoint's node": (*sliced(nodeName="A_"), "endpoints[0].nodeName"),
    "endpoint's host": (*sliced(hostname="A_"), "endpoints[0].hostname"),
}


@pytest.mark.behaviour("findings/FS9")
@pytest.mark.parametrize("case", INVALID)
def test_invalid_objects_have_the_real_causes(compare_answers: Compare, case: str) -> None:
    path, body, field = INVALID[case]
    code, causes, _ = compare_answers(path, body)
    assert (code, field in {where for _, where, _ in causes}) == (422, True)


@pytest.mark.behaviour("findings/FS19")
def test_what_a_real_server_takes_is_taken(compare_answers: Compare) -> None:
    account = subject("ServiceAccount")
    assert compare_answers(BINDINGS, bound(account))[0] == 201
    code, causes, _ = compare_answers(CLUSTER_BINDINGS, bound(account))
    assert (code, [field for _, field, _ in causes]) == (422, ["subjects[0].namespace"])
    assert compare_answers(DEPLOYMENTS, deployment("d", container(image=" x")))[0] == 201
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container(image=" x")]}}
    code, causes, _ = compare_answers(PODS, pod)
    assert (code, [field for _, field, _ in causes]) == (422, ["spec.containers[0].image"])
    assert compare_answers(SERVICES, service("1abc"))[0] == 201
    assert compare_answers(SERVICES, service("Abc"))[0] == 422


TWICE = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
WARNED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "variable twice": (
        "spec.containers[0]",
        {"env": TWICE},
        ['env[1]: hides previous definition of "A", which may be dropped when using apply'],
    ),
    "variable that refers to the first": (
        "spec.containers[0]",
        {"env": [TWICE[0], {"name": "A", "value": "$(A)2"}]},
        [],
    ),
    "fraction of a byte": (
        "spec.containers[0]",
        {"resources": {"requests": {"memory": "100m"}}},
        ['resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer'],
    ),
    "port twice": (
        "spec.containers[0]",
        {"ports": [{"containerPort": 80}, {"containerPort": 80}]},
        ["ports[1]: duplicate port definition with spec.containers[0].ports[0]"],
    ),
}


def header(text: str) -> str:
    return '299 - "' + text.replace('"', '\\"') + '"'


@pytest.mark.behaviour("findings/FS20")
@pytest.mark.parametrize("case", WARNED)
def test_a_pod_gets_the_real_warnings(compare_answers: Compare, case: str) -> None:
    where, fields, texts = WARNED[case]
    spec = {"containers": [container(**fields)]}
    code, _, warnings = compare_answers(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert (code, warnings) == (201, [header(f"{where}.{text}") for text in texts])


@pytest.mark.behaviour("findings/FS20")
@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "ReplicaSet", "StatefulSet"])
def test_a_template_gets_the_warnings_of_its_pods(compare_answers: Compare, kind: str) -> None:
    twice = container(env=TWICE, resources={"limits": {"memory": "1.5", "ephemeral-storage": "1500m"}})
    body = {**deployment("d", twice), "kind": kind}
    code, _, warnings = compare_answers(f"/apis/apps/v1/namespaces/default/{kind.lower()}s", body)
    where = "spec.template.spec.containers[0]"
    names = ("resources.limits[memory]", "resources.limits[ephemeral-storage]", "env[1]")
    assert code == 201
    assert [name for name in names for text in warnings if f"{where}.{name}" in text] == list(names)


@pytest.mark.behaviour("findings/FS20")
def test_an_unused_external_name_warns(compare_answers: Compare) -> None:
    code, _, warnings = compare_answers(SERVICES, service(externalName="a.b"))
    text = 'spec.externalName is ignored when spec.type is not "ExternalName"'
    assert (code, warnings) == (201, [header(text)])
    assert compare_answers(SERVICES, service(externalName="a.b", type="ExternalName"))[2] == []


def test_a_service_account_keeps_only_the_names_of_its_secrets(both: tuple[Api, Api]) -> None:
    secrets = [{"name": "s", "namespace": "n", "kind": "Secret"}, {"namespace": "n"}]
    account = {"metadata": {"name": "keeps-names"}, "secrets": secrets}
    accounts = f"{NAMESPACE}/serviceaccounts"
    for api in both:
        eventually(lambda api=api: api.get(NAMESPACE).status == 200)
        obj = api.post(accounts, account).expect(201)
        assert obj["secrets"] == [{"name": "s"}, {}]
        assert api.put(f"{accounts}/keeps-names", obj | {"secrets": secrets[:1]}).expect(200)["secrets"] == [
            {"name": "s"}
        ]
