from __future__ import annotations

import asyncio
import inspect
import json
import threading
from typing import Any

import pytest

import ctrlhost
from ctrlhost.client import AsyncClient, Client, Write
from ctrlhost.errors import (
    Expired,
    NotFound,
    UnknownKind,
)
from ctrlhost.transport.native import NativeTransport
from tests.support.stub_api_server import (
    Answer,
    Computed,
    Failure,
    Json,
    ReceivedRequest,
    StubApiServer,
    echo,
    pod,
    pod_list,
)

pytestmark = pytest.mark.behaviour("scale/SC50")
PODS = "/api/v1/namespaces/default/pods"


def test_an_object_is_read_as_a_plain_dict(server, client):
    server.on("GET", f"{PODS}/a", Json({"apiVersion": "v1", "kind": "Pod", **pod("a", 3)}))
    assert client.get("v1", "Pod", "a", "default")["metadata"]["resourceVersion"] == "3"


def test_a_missing_namespace_defaults_to_that_of_the_context(server, client):
    server.on("GET", f"{PODS}/a", Json(pod("a", 3)))
    assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"


def test_a_cluster_scoped_kind_needs_no_namespace(server, client):
    server.on("GET", "/api/v1/nodes/n1", Json({"metadata": {"name": "n1"}}))
    assert client.get("v1", "Node", "n1")["metadata"]["name"] == "n1"


def test_a_missing_object_is_an_error_for_get_and_none_for_find(server, client):
    server.on("GET", f"{PODS}/a", Failure(404, "NotFound", 'pods "a" not found'))
    with pytest.raises(NotFound, match='pods "a" not found'):
        client.get("v1", "Pod", "a", "default")
    assert client.find("v1", "Pod", "a", "default") is None


def test_a_list_is_fetched_in_pages_and_sets_the_kind_of_each_item(server, client):
    server.on(
        "GET",
        "/api/v1/pods",
        Json(pod_list(7, pod("a", 1), pod("b", 2), continue_="next")),
        Json(pod_list(7, pod("c", 3))),
    )
    pods = list(client.list("v1", "Pod", page_size=2, label_selector="app in (x,y)"))
    assert [pod["metadata"]["name"] for pod in pods] == ["a", "b", "c"]
    assert {(pod["apiVersion"], pod["kind"]) for pod in pods} == {("v1", "Pod")}
    first, second = server.requests
    assert first.query == {"limit": "2", "labelSelector": "app in (x,y)"}
    assert second.query == {"limit": "2", "labelSelector": "app in (x,y)", "continue": "next"}


@pytest.mark.behaviour("informers/PG4")
@pytest.mark.behaviour("findings/FT1")
def test_a_reader_that_stops_or_fails_at_the_third_object_gets_no_more(server, client):
    server.on(
        "GET", "/api/v1/pods", Json(pod_list(7, *(pod(f"p{number}", 1) for number in range(10)), continue_="next"))
    )
    seen = []
    for obj in client.list("v1", "Pod"):
        seen.append(obj["metadata"]["name"])
        if len(seen) == 3:
            break
    assert seen == ["p0", "p1", "p2"]
    with pytest.raises(ZeroDivisionError):
        [0 // (2 - number) for number, _ in enumerate(client.list("v1", "Pod"))]
    # An iterator that is closed yields nothing more, not even the rest of its page.
    pods = client.list("v1", "Pod")
    assert [next(pods)["metadata"]["name"] for _ in range(3)] == seen
    pods.close()
    assert list(pods) == []
    assert [request.query.get("continue") for request in server.requests] == [None] * 3


@pytest.mark.behaviour("informers/PG2")
@pytest.mark.behaviour("informers/PG4")
def test_a_snapshot_that_expires_between_pages_is_an_error_after_the_first_page(server, client):
    server.on(
        "GET",
        "/api/v1/pods",
        Json(pod_list(7, *(pod(f"p{number}", 1) for number in range(10)), continue_="next")),
        Failure(410, "Expired", "too old"),
    )
    pods = client.list("v1", "Pod")
    assert [next(pods)["metadata"]["name"] for _ in range(10)] == [f"p{number}" for number in range(10)]
    # The client has no fallback to a whole list, since its caller has seen a part of the snapshot.
    with pytest.raises(Expired):
        next(pods)
    assert [request.query.get("continue") for request in server.requests] == [None, "next"]


@pytest.mark.behaviour("informers/PG5")
def test_a_list_fetches_no_page_after_its_reader_stops(server, client):
    # No page is fetched ahead: upstream fetches at least one page more than was read.
    server.on("GET", "/api/v1/pods", Json(pod_list(7, pod("a", 1), continue_="next")))
    next(client.list("v1", "Pod"))
    assert len(server.requests) == 1


def test_names_are_percent_encoded_and_cannot_escape_their_path(server, client):
    server.on("GET", "/api/v1/clusterroles", Failure(500))
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa%2Fb"
    server.on("GET", path, Json({"metadata": {"name": "system:a/b"}}))
    assert client.get("rbac.authorization.k8s.io/v1", "ClusterRole", "system:a/b")["metadata"]["name"] == "system:a/b"
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="cannot be part of a URL"):
            client.get("v1", "Pod", name, "default")
    with pytest.raises(ValueError, match="namespace"):
        client.get("v1", "Pod", "a", "..")
    assert len(server.requests) == 1


def test_creating_posts_to_the_collection_and_returns_the_servers_object(server, client):
    server.on("POST", PODS, echo(201))
    created = client.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-", "namespace": "default"}}
    )
    assert created["metadata"]["generateName"] == "a-"
    assert server.requests[0].query == {"fieldManager": "ctrlhost"}
    assert server.requests[0].headers["content-type"] == "application/json"


def test_an_owner_becomes_the_controller_of_the_created_object(server, client):
    server.on("POST", PODS, echo(201))
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default", "uid": "u1"},
    }
    mine = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    created = client.create(mine, owner)
    assert created["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "d",
            "uid": "u1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert created["metadata"]["namespace"] == "default"
    assert mine == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def test_an_owner_of_another_namespace_or_beside_another_controller_is_refused(client):
    owner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d", "namespace": "elsewhere", "uid": "u1"}}
    with pytest.raises(ValueError, match="cannot be owned from namespace elsewhere"):
        client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}}, owner)
    other = {"kind": "Pod", "name": "x", "uid": "u2", "controller": True}
    with pytest.raises(ValueError, match="already has the controller Pod x"):
        client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "ownerReferences": [other]}}, owner)
    with pytest.raises(ValueError, match="an owner needs uid"):
        client.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}},
        )


OWNER = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "namespace": "default", "uid": "u2"},
}
CLUSTER_SCOPED = {
    "built in": ("v1", "PersistentVolume"),
    "of a CRD": ("example.org/v1", "Planet"),
}


@pytest.mark.behaviour("findings3/NC5")
@pytest.mark.parametrize("case", CLUSTER_SCOPED)
def test_a_namespaced_owner_of_a_cluster_scoped_object_is_refused_before_any_request(server, client, case):
    api_version, kind = CLUSTER_SCOPED[case]
    names = {"plural": "planets", "kind": "Planet"}
    client.add_crds(
        [{"spec": {"group": "example.org", "scope": "Cluster", "names": names, "versions": [{"name": "v1"}]}}]
    )
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}
    text = f"{kind} a is cluster-scoped and cannot be owned from namespace default"
    with pytest.raises(ValueError, match=text):
        client.create(obj, OWNER)
    with pytest.raises(ValueError, match=text):
        client.apply(obj, owner=OWNER)
    with pytest.raises(ValueError, match=text):
        asyncio.run(AsyncClient(client).create(obj, owner=OWNER))
    assert server.requests == []


@pytest.mark.behaviour("findings3/NC6")
@pytest.mark.parametrize("version", ["apps/v1", "apps/v1beta1"])
def test_a_former_owner_that_controls_is_refused_with_the_reason(server, client, version):
    former = {"apiVersion": version, "kind": "Deployment", "name": "d", "uid": "u1", "controller": True}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "ownerReferences": [former]}}
    text = "Pod a has a former Deployment d as its controller, of uid u1 and not u2: the garbage collector deletes it"
    for write in (lambda: client.create(obj, OWNER), lambda: client.apply(obj, owner=OWNER)):
        with pytest.raises(ValueError, match=text):
            write()
    assert server.requests == []
    assert "a former `owner`" in inspect.getdoc(Client.create)


@pytest.mark.behaviour("findings3/NC6")
def test_a_former_reference_that_does_not_control_is_replaced(server, client):
    server.on("POST", PODS, echo(201))
    former = {"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "d", "uid": "u1"}
    same = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u2"}
    others = [{**former, "name": "e", "uid": "u3"}, {**former, "apiVersion": "x/v1", "uid": "u4"}]
    metadata = {"name": "a", "ownerReferences": [former, *others, same]}
    created = client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, OWNER)
    reference = {**same, "controller": True, "blockOwnerDeletion": True}
    assert created["metadata"]["ownerReferences"] == [*others, reference]
    assert metadata["ownerReferences"] == [former, *others, same]


def test_replace_apply_patch_and_delete_use_the_right_path(server, client):
    for method in ("PUT", "PATCH", "DELETE"):
        server.on(method, f"{PODS}/a", Json(pod("a", 4)))
        server.on(method, f"{PODS}/a/status", Json(pod("a", 5)))
    obj = {"apiVersion": "v1", "kind": "Pod", **pod("a", 3)}
    client.replace(obj)
    client.replace(obj, "status")
    client.apply(obj, field_manager="m", force=False)
    client.apply(obj, subresource="status")
    client.patch("v1", "Pod", "a", "default", {"metadata": {"labels": {"x": None}}})
    client.patch("v1", "Pod", "a", "default", [{"op": "remove", "path": "/spec"}], type="json")
    client.patch("v1", "Pod", "a", "default", {}, type="strategic", subresource="status")
    client.delete(
        "v1", "Pod", "a", "default", propagation="Foreground", preconditions={"uid": "u", "resourceVersion": "3"}
    )
    requests = [
        (request.method, request.path.removeprefix(PODS), request.query, request.headers.get("content-type", ""))
        for request in server.requests
    ]
    manager = {"fieldManager": "ctrlhost"}
    assert requests == [
        ("PUT", "/a", manager, "application/json"),
        ("PUT", "/a/status", manager, "application/json"),
        ("PATCH", "/a", {"fieldManager": "m", "force": "false"}, "application/apply-patch+yaml"),
        ("PATCH", "/a/status", {"fieldManager": "ctrlhost", "force": "true"}, "application/apply-patch+yaml"),
        ("PATCH", "/a", manager, "application/merge-patch+json"),
        ("PATCH", "/a", manager, "application/json-patch+json"),
        ("PATCH", "/a/status", manager, "application/strategic-merge-patch+json"),
        ("DELETE", "/a", {}, "application/json"),
    ]
    assert server.requests[-1].json() == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
    }


def test_deleting_a_collection_stays_in_one_namespace(server, client):
    server.on("DELETE", PODS, Json({"kind": "PodList", "items": []}))
    client.delete_collection("v1", "Pod", label_selector="a=b")
    assert server.requests[0].query == {"labelSelector": "a=b"}


def test_a_call_with_a_missing_name_never_addresses_the_collection(server, client):
    nameless: Any = None
    for call in (
        lambda: client.get("v1", "Pod", nameless, "default"),
        lambda: client.find("v1", "Pod", nameless, "default"),
        lambda: client.delete("v1", "Pod", nameless, "default"),
        lambda: client.patch("v1", "Pod", nameless, "default", {}),
    ):
        with pytest.raises(TypeError, match="the name of a Pod must be a string, got None"):
            call()
    assert server.requests == []


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_an_invalid_timeout_is_refused_before_any_request(server, client, timeout):
    with pytest.raises(ValueError, match="timeout must be a non-negative number of seconds"):
        client.get("v1", "Pod", "a", "default", timeout=timeout)
    assert server.requests == []


def test_writes_are_reported_to_the_callback(server, client):
    server.on("PATCH", f"{PODS}/a", Json(pod("a", 4)))
    seen: list[Write] = []
    plugin = client.derive(field_manager="plugin", on_write=seen.append)
    plugin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    assert server.requests[0].query["fieldManager"] == "plugin"
    assert [
        (write.verb, write.target.name, write.target.namespace, write.object["metadata"]["resourceVersion"])
        for write in seen
    ] == [("apply", "a", "default", "4")]


def test_objects_without_kind_or_name_are_refused_before_any_request(server, client):
    with pytest.raises(ValueError, match="apiVersion and kind"):
        client.create({"metadata": {"name": "a"}})
    with pytest.raises(ValueError, match=r"metadata\.name"):
        client.replace({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a"}})
    with pytest.raises(ValueError, match="patch type"):
        client.patch("v1", "Pod", "a", "default", {}, type="magic")  # type: ignore[arg-type]
    assert server.requests == []


CRD = {
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1"}, {"name": "v1beta1"}],
    }
}


def test_a_loaded_crd_needs_no_discovery(server, client):
    client.add_crds([CRD])
    server.on("GET", "/apis/example.com/v1beta1/namespaces/default/foos/a", Json({}))
    client.get("example.com/v1beta1", "Foo", "a")
    assert len(server.requests) == 1


def test_an_unknown_kind_is_discovered_once_and_requested_again_while_missing(server, client):
    with pytest.raises(NotFound, match="does not serve kind Foo") as caught:
        client.resource("example.com/v1", "Foo")
    assert "CustomResourceDefinition" in (caught.value.hint or "")
    listed = {"kind": "APIResourceList", "resources": []}
    server.on("GET", "/apis/example.com/v1", Json(listed))
    with pytest.raises(NotFound):
        client.resource("example.com/v1", "Foo")
    kinds = [
        {"name": "foos", "kind": "Foo", "namespaced": False, "verbs": ["get", "list"]},
        {"name": "foos/status", "kind": "Foo", "namespaced": True, "verbs": ["get"]},
    ]
    server.on("GET", "/apis/example.com/v1", Json({**listed, "resources": kinds}))
    assert client.resource("example.com/v1", "Foo").path() == "/apis/example.com/v1/foos"
    assert client.resource("example.com/v1", "Foo").verbs == ("get", "list")
    assert [request.path for request in server.requests] == [
        "/apis/example.com/v1",
        "/apis",
        *["/apis/example.com/v1"] * 2,
    ]
    client.resources.forget("example.com/v1", "Foo")
    client.resource("example.com/v1", "Foo")
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("api_version", "kind", "text"),
    [
        ("apps/v1", "Deploymnet", "no kind `Deploymnet` in apps/v1; did you mean `Deployment`?"),
        ("app/v1", "Deployment", "no kind `Deployment` in app/v1; did you mean `Deployment` in apps/v1?"),
        ("apps/v1", "deployment", "no kind `deployment` in apps/v1; did you mean `Deployment`?"),
        ("apps/v1", "Widget", "the server does not serve kind Widget in apps/v1"),
        ("apps/v1beta1", "Deployment", "apps/v1beta1 is not served; apps has v1"),
        ("example.com/v1alpha1", "Foo", "example.com/v1alpha1 is not served; example.com has v1, v1beta1"),
        ("exmaple.com/v1", "Foo", "exmaple.com/v1 is not served; did you mean `example.com`?"),
        ("v2", "Pod", "v2 is not served; the core group has v1"),
        ("other.org/v1", "Foo", "the server does not serve kind Foo in other.org/v1"),
    ],
)
@pytest.mark.behaviour("authoring/AM15")
def test_an_unknown_kind_is_named_with_the_nearest_one(server, client, api_version, kind, text):
    kinds = [{"name": f"{kind.lower()}s", "kind": kind, "namespaced": True} for kind in ("Deployment", "ReplicaSet")]
    server.on("GET", "/apis/apps/v1", Json({"kind": "APIResourceList", "resources": kinds}))
    served = {"apps": ["v1"], "example.com": ["v1", "v1beta1"]}
    groups = [{"name": name, "versions": [{"version": version} for version in served[name]]} for name in served]
    server.on("GET", "/apis", Json({"kind": "APIGroupList", "groups": groups}))
    for ask in (lambda: client.resource(api_version, kind), lambda: client.find(api_version, kind, "a")):
        with pytest.raises(UnknownKind) as caught:
            ask()
        assert isinstance(caught.value, NotFound)
        assert caught.value.message == text
        # No CRD serves the groups of Kubernetes itself.
        expected = "CustomResourceDefinition" if "." in api_version else "kubectl api-resources"
        assert expected in (caught.value.hint or "")
    assert client.find("apps/v1", "Deployment", "missing") is None


def test_an_unknown_version_has_a_message_though_the_groups_cannot_be_read(server, client):
    server.on("GET", "/apis", Failure(403))
    with pytest.raises(UnknownKind, match=r"does not serve kind Foo in example\.com/v1"):
        client.resource("example.com/v1", "Foo")
    server.on("GET", "/apis", Json({"kind": "APIGroupList", "groups": 3}))
    with pytest.raises(UnknownKind, match=r"does not serve kind Foo in example\.com/v1"):
        client.resource("example.com/v1", "Foo")


def test_requests_are_counted_in_the_usual_metrics(server, client):
    from prometheus_client import CollectorRegistry

    server.on("GET", f"{PODS}/a", Json(pod("a", 1)), Failure(404))
    client.get("v1", "Pod", "a")
    client.find("v1", "Pod", "a")
    registry = CollectorRegistry()
    registry.register(client.metrics)
    host = f"127.0.0.1:{server.port}"
    assert registry.get_sample_value("rest_client_requests_total", {"code": "200", "method": "GET", "host": host}) == 1
    assert registry.get_sample_value("rest_client_requests_total", {"code": "404", "method": "GET", "host": host}) == 1
    assert registry.get_sample_value("rest_client_request_duration_seconds_count", {"verb": "GET", "host": host}) == 2


def test_many_threads_share_one_client(server, client):
    def answer(request: ReceivedRequest) -> Answer:
        return Json(pod(request.path.rsplit("/", 1)[1], 1))

    for number in range(40):
        server.on("GET", f"{PODS}/p{number}", Computed(answer))
    names: list[str] = []

    def work(start: int) -> None:
        names.extend(client.get("v1", "Pod", f"p{number}")["metadata"]["name"] for number in range(start, 40, 8))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == sorted(f"p{number}" for number in range(40))


def test_what_is_written_may_hold_parts_of_cached_objects(server, client):
    server.on("POST", "/api/v1/namespaces/default/configmaps", echo())
    source = ctrlhost.Object({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": ["v", {"deep": 1}]}})
    copy = client.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "b", "labels": source.labels},
            "data": source["data"],
            "list": source["data"]["k"],
        }
    )
    assert copy["metadata"]["labels"] == {"x": "y"}
    assert (copy["data"], copy["list"]) == ({"k": ["v", {"deep": 1}]}, ["v", {"deep": 1}])
    with pytest.raises(TypeError, match="object is not a JSON type"):
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": object()})


def test_the_client_is_public():
    assert ctrlhost.Client is Client
    assert isinstance(Client("http://127.0.0.1:1").transport, NativeTransport)


async def _use_async(server: StubApiServer, client: Client) -> list[str]:
    async_client = ctrlhost.AsyncClient(client)
    try:
        assert await async_client.find("v1", "Pod", "gone") is None
        written = await async_client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
        assert written["metadata"]["resourceVersion"] == "4"
        return [pod["metadata"]["name"] async for pod in async_client.list("v1", "Pod")]
    finally:
        async_client.close()


def test_the_async_client_behaves_like_the_client(server, client):
    import asyncio

    server.on("PATCH", f"{PODS}/a", Json(pod("a", 4)))
    server.on("GET", "/api/v1/pods", Json(pod_list(7, pod("a", 1), continue_="next")), Json(pod_list(7, pod("b", 3))))
    assert asyncio.run(_use_async(server, client)) == ["a", "b"]


def test_importing_the_client_reads_neither_the_models_nor_the_oauth_libraries():
    import subprocess
    import sys

    code = (
        "import sys; from ctrlhost.client import Client; Client('http://127.0.0.1:1'); "
        "print([name for name in ('kubernetes', 'pydantic', 'requests', 'oauthlib', 'yaml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == []
