"""Requests with several faults, and options: the sandbox and a real kube-apiserver answer alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.tests.conftest import Crd
from tests.support.compared import Pair
from tests.support.http_client import JSON, JSON_PATCH, MERGE, STRATEGIC, Answer
from tests.support.objects import config_map, core, deployment, service

DEFAULT = "/apis/apps/v1/namespaces/{}/deployments"
OPERATIONS = b"[" + b",".join([b'{"op":"add","path":"/a","value":1}'] * 10_001) + b"]"
PATCHES: dict[str, list[bytes]] = {
    MERGE: [b"{", b"[]", b"3", b"null", b'{"a":', b"", b"{}"],
    STRATEGIC: [b"{", b"[]", b"null", b"", b"{}"],
    JSON_PATCH: [b"{", b"{}", b"[3]", b"", b'[{"op":"x","path":"/a"}]', b'[{"op":"test","path":"/a"}]', OPERATIONS],
    "application/json": [b"{}"],
    "text/plain": [b"{}", b"{"],
}


@pytest.mark.behaviour("findings/FS21")
@pytest.mark.parametrize("media", PATCHES)
def test_a_patch_of_a_missing_object(pair: Pair, pair_crd: Callable[..., Crd], media: str) -> None:
    custom = pair_crd().path(pair.namespace, "missing")
    options = [{"fieldValidation": "x"}, {"dryRun": "x"}, {"fieldManager": "x" * 200}]
    for path in (core(pair.namespace, "configmaps", "missing"), custom):
        served = media in (MERGE, JSON_PATCH) or (media == STRATEGIC and path != custom)
        for body in PATCHES[media]:
            assert pair.ask("PATCH", path, body, content_type=media)[0] == (404 if served else 415)
        for option in options if served else ():
            assert pair.ask("PATCH", path, b"{", content_type=media, **option)[0] == 422


BAD: dict[str, tuple[int, Any]] = {
    "no name": (400, {"metadata": {}}),
    "other name": (400, {"metadata": {"name": "other"}}),
    "other namespace": (400, {"metadata": {"name": "missing", "namespace": "other"}}),
    "wrong type": (400, {"metadata": {"name": "missing", "labels": 3}}),
    "unknown field": (400, {"foo": 1}),
    "resource version": (404, {"metadata": {"name": "missing", "resourceVersion": "1"}}),
    "uid": (404, {"metadata": {"name": "missing", "uid": "a"}}),
    "invalid": (404, {"metadata": {"name": "missing", "labels": {"_": "_"}}}),
    "valid": (404, {}),
}


@pytest.mark.behaviour("findings/FS21")
@pytest.mark.parametrize("case", BAD)
def test_a_put_of_a_missing_object(pair: Pair, pair_crd: Callable[..., Crd], case: str) -> None:
    code, changes = BAD[case]
    crd = pair_crd()
    objects = {
        core(pair.namespace, "configmaps", "missing"): {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            **config_map("missing"),
        },
        crd.path(pair.namespace, "missing"): crd.obj("missing", size=1),
        f"{DEFAULT.format(pair.namespace)}/missing": {**deployment("missing"), "apiVersion": "apps/v1"},
    }
    for path, body in objects.items():
        for where in (path, f"{path}/status") if "configmaps" not in path else (path,):
            assert pair.ask("PUT", where, {**body, **changes}, fieldValidation="Strict")[0] == code
        assert pair.ask("PUT", path, b"x", content_type="text/plain")[0] == 415


@pytest.mark.behaviour("findings/FS21")
def test_an_invalid_object_is_reported_before_its_name_is_in_use(pair: Pair, pair_crd: Callable[..., Crd]) -> None:
    crd = pair_crd()
    maps, services, widgets = (
        core(pair.namespace, "configmaps"),
        core(pair.namespace, "services"),
        crd.path(pair.namespace),
    )
    pair.done("POST", maps, config_map("a"))
    pair.done("POST", services, service("a"))
    pair.done("POST", widgets, crd.obj("a", size=1))
    assert pair.ask("POST", maps, config_map("a"))[0] == 409
    assert pair.ask("POST", maps, config_map("a", {"/": "x"}))[0] == 422
    assert pair.ask("POST", services, service("a", {"port": 0}))[0] == 422
    assert pair.ask("POST", widgets, crd.obj("a", size="x"))[0] == 422
    assert pair.ask("POST", widgets, crd.obj("a", size=2))[0] == 409
    # A version is refused last, and after the namespace.
    versioned = {**config_map("a", {"/": "x"}), "metadata": {"name": "a", "resourceVersion": "3"}}
    assert pair.ask("POST", maps, versioned)[0] == 422
    assert pair.ask("POST", maps, {**versioned, "data": {}})[0] == 500
    assert pair.ask("POST", core("missing", "configmaps"), versioned)[0] == 404
    # An update: what cannot be decoded, then a conflict, then what is invalid.
    old = {"name": "a", "resourceVersion": "1"}
    assert pair.ask("PUT", f"{maps}/a", {**config_map("a"), "metadata": old, "data": 3})[0] == 400
    assert pair.ask("PUT", f"{maps}/a", {**config_map("a", {"/": "x"}), "metadata": old})[0] == 409
    assert pair.ask("PUT", f"{widgets}/a", {**crd.obj("a", size="x"), "metadata": old})[0] == 409
    assert pair.ask("PUT", f"{widgets}/a", crd.obj("a", size="x"))[0] == 422
    merge = {"metadata": {"resourceVersion": "1"}, "data": {"/": "x"}}
    assert pair.ask("PATCH", f"{maps}/a", merge, content_type=MERGE)[0] == 409


@pytest.mark.behaviour("findings/FS22")
@pytest.mark.behaviour("findings/FS22a")
def test_pretty_json(pair: Pair) -> None:
    path = f"/api/v1/namespaces/{pair.namespace}"
    agents = [{"User-Agent": name} for name in ("curl/8.5.0", "Wget/1.21", "Mozilla/5.0 (X11)", "kubectl/v1.36.3", "x")]
    requests: list[tuple[dict[str, str], dict[str, str]]] = [(headers, {}) for headers in agents]
    requests += [({"User-Agent": "curl"}, {"pretty": value}) for value in ("", "0", "false", "x")]
    requests += [({}, {"pretty": value}) for value in ("1", "t", "true", "TRUE", "0", "false", "", "yes")]
    pairs = [
        [api.request("GET", path, headers=headers, **query) for api in (pair.ours, pair.theirs)]
        for headers, query in requests
    ]
    pretty = [[b"\n  " in answer.body for answer in both] for both in pairs]
    assert [ours for ours, _ in pretty] == [theirs for _, theirs in pretty]
    assert {ours for ours, _ in pretty} == {True, False}
    for place in (
        "/api",
        "/api/v1",
        "/apis",
        "/version",
        f"{path}/configmaps",
        f"{path}/configmaps/missing",
        "/openapi/v3",
    ):
        both = [api.get(place, pretty="true").body for api in (pair.ours, pair.theirs)]
        assert len({b"\n  " in body for body in both}) == 1, both
    bodies = [api.get(f"{path}/configmaps/missing", pretty="true").body for api in (pair.ours, pair.theirs)]
    assert bodies[0].decode().strip() == bodies[1].decode().strip()
    for api in (pair.ours, pair.theirs):
        event = api.request("GET", "/api/v1/namespaces", watch="true", timeoutSeconds="1", pretty="true").body
        assert b"\n  " not in event


@pytest.mark.behaviour("findings/FS22")
@pytest.mark.behaviour("findings/FS22b")
def test_cascading_deletion_is_answered_as_accepted(pair: Pair) -> None:
    path = core(pair.namespace, "configmaps")
    codes = []
    for number, sent in enumerate((False, None, True, False)):
        held = {"name": f"a{number}", "finalizers": ["a.example.org/b"] if number < 3 else []}
        pair.done("POST", path, {**config_map(f"a{number}"), "metadata": held})
        where, value = f"{path}/a{number}", str(sent).lower()
        body = None if sent is None else {"orphanDependents": sent}
        codes.append(pair.ask("DELETE", where, body)[0])
        again = {} if sent is None else {"orphanDependents": value}
        assert pair.ask("DELETE", where, **again)[0] == (codes[-1] if number < 3 else 404)
    assert codes == [202, 200, 200, 200]
    assert pair.ask("DELETE", f"{path}/a0", {"orphanDependents": "x"})[0] == 400
    both = {"orphanDependents": False, "propagationPolicy": "Background"}
    assert pair.ask("DELETE", f"{path}/a0", both)[0] == 422


@pytest.mark.behaviour("findings/FS22")
@pytest.mark.behaviour("findings/FS22d")
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "x", "1.2.3.4", "1.2.3.04"]
)
def test_addresses_of_endpoints(pair: Pair, address: str) -> None:
    path = core(pair.namespace, "endpoints")
    for member in ("addresses", "notReadyAddresses"):
        body = {"metadata": {"name": "e"}, "subsets": [{member: [{"ip": address}], "ports": [{"port": 80}]}]}
        code, _ = pair.ask("POST", path, body, dryRun="All")
        assert (code == 201) == (address == "1.2.3.4")


@pytest.mark.behaviour("findings/FS22")
@pytest.mark.behaviour("findings/FS22d")
def test_other_faults_of_endpoints(pair: Pair) -> None:
    path = core(pair.namespace, "endpoints")
    address = {"addresses": [{"ip": "1.2.3.4"}]}
    for subset in (
        {"ports": [{"port": 80}]},
        {**address, "ports": [{"port": 0}]},
        {**address, "ports": [{"port": 80}, {"port": 81}]},
        {**address, "ports": [{"port": 80, "name": "A_"}]},
        {**address, "ports": [{"port": 80, "protocol": "X"}]},
        {"addresses": [{"ip": "1.2.3.4", "hostname": "A_"}]},
        {"addresses": [{"ip": "1.2.3.4", "nodeName": "A_"}]},
    ):
        assert pair.ask("POST", path, {"metadata": {"name": "e"}, "subsets": [subset]}, dryRun="All")[0] == 422
    warned = [api.get(path).warnings for api in (pair.ours, pair.theirs)]
    assert warned[0] == warned[1] != []


BINDINGS: dict[str, tuple[int, Any]] = {
    "text": (400, "n"),
    "list": (400, []),
    "number": (400, {"name": 3}),
    "node": (201, {"name": "n"}),
}


@pytest.mark.behaviour("findings/FS21")
@pytest.mark.parametrize("case", BINDINGS)
@pytest.mark.parametrize("collection", [True, False])
def test_a_binding_in_a_namespace_with_limits(pair: Pair, case: str, *, collection: bool) -> None:
    code, target = BINDINGS[case]
    limits = {"limits": [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}}]}
    pair.done("POST", core(pair.namespace, "limitranges"), {"metadata": {"name": "limits"}, "spec": limits})
    spec = {"serviceAccountName": "default", "containers": [{"name": "c", "image": "i"}]}
    pair.done("POST", core(pair.namespace, "pods"), {"metadata": {"name": "bound"}, "spec": spec})
    path = core(pair.namespace, "bindings") if collection else f"{core(pair.namespace, 'pods', 'bound')}/binding"
    body = {"metadata": {"name": "bound"}, "target": target}
    try:
        assert [api.post(path, body).status for api in (pair.ours, pair.theirs)] == [code, code]
        for api in (pair.ours, pair.theirs):
            bound = api.get(core(pair.namespace, "pods", "bound")).expect(200)["spec"].get("nodeName")
            assert bound == ("n" if code == 201 else None)
    finally:
        pair.done("DELETE", core(pair.namespace, "pods", "bound"), gracePeriodSeconds=0)
        pair.done("DELETE", core(pair.namespace, "limitranges", "limits"))


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_objects_of_all_namespaces_are_only_read(pair: Pair, pair_crd: Callable[..., Crd], method: str) -> None:
    crd = pair_crd()
    kept = {core(pair.namespace, "configmaps"): config_map("kept"), crd.path(pair.namespace): crd.obj("kept")}
    for path, body in kept.items():
        pair.done("POST", path, body)
    everywhere = {"/api/v1/configmaps": 405, "/apis/apps/v1/deployments": 405, f"/apis/{crd.group}/v1/widgets": 404}
    for path, code in everywhere.items():
        for url in (path, f"{path}/kept"):
            ours, theirs = (
                api.request(
                    method, url, {"metadata": {"name": "kept"}}, content_type=MERGE if method == "PATCH" else JSON
                )
                for api in (pair.ours, pair.theirs)
            )
            assert [ours.status, theirs.status] == [code if url == path else 404] * 2
            if code == 405:
                assert ours.json()["message"] == theirs.json()["message"]
            else:
                assert ours.body == theirs.body == b"404 page not found\n"
    for path in kept:
        for api in (pair.ours, pair.theirs):
            api.get(f"{path}/kept").expect(200)


PREFIXES = [
    "A_",
    "-a",
    "a..",
    "a.",
    "a-",
    "a--",
    "-",
    ".",
    "..",
    "a" * 70,
    "a" * 254,
    "a" * 253 + "-",
    "a/b",
    "a%",
    "é",
]


@pytest.mark.behaviour("sandbox/CT-28")
@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_prefix_of_a_name_is_checked(pair: Pair, prefix: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        core(pair.namespace, "configmaps"): {},
        core(pair.namespace, "services"): {"spec": {"ports": [{"port": 80}]}},
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{pair.namespace}/roles": {},
    }

    def outcome(answer: Answer) -> list[tuple[str, str, str]]:
        causes = answer.json().get("details", {}).get("causes", []) if answer.status >= 400 else []
        # The generated name differs.
        return [(cause["field"], cause["reason"], cause["message"].rpartition('": ')[2]) for cause in causes]

    for path, more in bodies.items():
        for name in ({}, {"name": "fine"}):
            body = {"metadata": {"generateName": prefix, **name}, **more}
            ours, theirs = (api.post(path, body, dryRun="All") for api in (pair.ours, pair.theirs))
            assert (path, ours.status, outcome(ours)) == (path, theirs.status, outcome(theirs))
