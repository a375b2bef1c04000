"""Get and list: consistency, chunks, selectors, forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from sandbox.tests.conftest import Crd
from tests.support.http_client import TABLE, Api, names
from tests.support.objects import apps, config_map, core, deployment, pod

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture
def five(api: Api, ns: str, widgets: Crd) -> Crd:
    for name in "abcde":
        api.post(widgets.path(ns), {**widgets.obj(), "metadata": {"name": name, "labels": {"k": "v"}}}).expect(201)
    return widgets


@pytest.mark.behaviour("sandbox/GT-01")
def test_a_created_object_is_returned(api: Api, ns: str) -> None:
    created = api.post(core(ns, "configmaps"), config_map()).expect(201)
    assert api.get(core(ns, "configmaps", "a")).expect(200) == created


@pytest.mark.behaviour("sandbox/GT-02")
def test_a_missing_object_is_named(api: Api, ns: str) -> None:
    status = api.get(apps(ns, "deployments", "x")).fails(404, "NotFound")
    assert status["details"] == {"name": "x", "group": "apps", "kind": "deployments"}


@pytest.mark.behaviour("sandbox/GT-03")
@pytest.mark.behaviour("sandbox/GT-04")
def test_a_read_may_require_a_version(api: Api, ns: str) -> None:
    obj = api.post(core(ns, "configmaps"), config_map()).expect(201)
    path = core(ns, "configmaps", "a")
    api.get(path, resourceVersion=0).expect(200)
    future = int(obj["metadata"]["resourceVersion"]) + 1_000_000
    api.get(path, resourceVersion=future).fails(504, "Timeout", cause="ResourceVersionTooLarge")


@pytest.mark.behaviour("sandbox/GT-05")
def test_metadata_alone(api: Api, ns: str, widgets: Crd) -> None:
    created = api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)
    obj = api.get(widgets.path(ns, "a"), PARTIAL).expect(200)
    assert (obj["kind"], obj["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert obj["metadata"] == created["metadata"]
    assert "spec" not in obj


@pytest.mark.behaviour("sandbox/GT-06")
@pytest.mark.behaviour("sandbox/GT-07")
@pytest.mark.behaviour("sandbox/GT-08")
def test_the_first_servable_encoding_is_used(api: Api, ns: str, widgets: Crd) -> None:
    widget = api.post(widgets.path(ns), widgets.obj()).expect(201)
    api.get(widgets.path(ns, "a"), PROTOBUF).fails(406, "NotAcceptable")
    answer = api.get(widgets.path(ns, "a"), f"{PROTOBUF},application/json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == widget
    created = api.post(core(ns, "configmaps"), config_map()).expect(201)
    answer = api.get(core(ns, "configmaps", "a"), "application/yaml")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/yaml")
    # JSON is valid YAML too.
    assert b"\nkind: ConfigMap\n" in answer.body
    assert yaml.safe_load(answer.body) == created


@pytest.mark.behaviour("sandbox/GT-09")
def test_status_reads_the_whole_object(api: Api, ns: str) -> None:
    api.post(apps(ns, "deployments"), deployment(replicas=0)).expect(201)
    whole = api.get(apps(ns, "deployments", "d")).expect(200)
    assert "selector" in whole["spec"]
    assert api.get(apps(ns, "deployments", "d") + "/status").expect(200) == whole


@pytest.mark.behaviour("sandbox/LS-01")
@pytest.mark.behaviour("sandbox/LS-02")
def test_an_empty_list(api: Api, ns: str, widgets: Crd) -> None:
    listing = api.get(widgets.path(ns)).expect(200)
    assert listing["items"] == []
    assert listing["metadata"]["resourceVersion"].isdigit()
    assert api.get(core("nowhere", "configmaps")).expect(200)["items"] == []


@pytest.mark.behaviour("sandbox/LS-03")
def test_items_of_built_in_kinds_have_no_type(api: Api, ns: str, widgets: Crd) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    listing = api.get(core(ns, "configmaps")).expect(200)
    assert listing["kind"] == "ConfigMapList"
    assert [item for item in listing["items"] if {"kind", "apiVersion"} & item.keys()] == []
    listing = api.get(widgets.path(ns)).expect(200)
    assert listing["kind"] == "WidgetList"
    assert [(item["kind"], item["apiVersion"]) for item in listing["items"]] == [("Widget", f"{widgets.group}/v1")]


@pytest.mark.behaviour("sandbox/LS-04")
def test_all_namespaces_are_listed_in_order(api: Api, ns: str, widgets: Crd) -> None:
    for namespace, name in ((ns, "b"), ("default", "c"), (ns, "a")):
        api.post(widgets.path(namespace), widgets.obj(name)).expect(201)
    items = api.get(f"/apis/{widgets.group}/v1/widgets").expect(200)["items"]
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items]
    assert keys == [("default", "c"), (ns, "a"), (ns, "b")]


@pytest.mark.behaviour("sandbox/LS-05")
@pytest.mark.behaviour("sandbox/LS-06")
def test_chunks_come_from_one_snapshot(api: Api, ns: str, five: Crd) -> None:
    pages = [api.get(five.path(ns), limit=2).expect(200)]
    api.post(five.path(ns), five.obj("z")).expect(201)
    while token := pages[-1]["metadata"].get("continue"):
        pages.append(api.get(five.path(ns), **{"limit": 2, "continue": token}).expect(200))
    assert [[item["metadata"]["name"] for item in page["items"]] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [3, 1, None]


@pytest.mark.behaviour("sandbox/LS-07")
def test_a_selected_chunk_does_not_count_the_rest(api: Api, ns: str, five: Crd) -> None:
    metadata = api.get(five.path(ns), limit=2, labelSelector="k=v").expect(200)["metadata"]
    assert metadata["continue"]
    assert "remainingItemCount" not in metadata


@pytest.mark.behaviour("sandbox/LS-08")
def test_an_invalid_continue_token_is_refused(api: Api, ns: str) -> None:
    api.get(core(ns, "configmaps"), **{"continue": "garbage"}).fails(400)


@pytest.mark.behaviour("sandbox/LS-09")
def test_limit_is_ignored_with_version_0(api: Api, ns: str, five: Crd) -> None:
    listing = api.get(five.path(ns), limit=1, resourceVersion=0).expect(200)
    assert len(listing["items"]) == 5
    assert "continue" not in listing["metadata"]


@pytest.mark.behaviour("sandbox/LS-10")
@pytest.mark.behaviour("sandbox/LS-11")
@pytest.mark.behaviour("sandbox/LS-12")
def test_a_list_may_request_an_old_version(api: Api, ns: str, five: Crd) -> None:
    version = api.revision(five.path(ns))
    api.post(five.path(ns), five.obj("z")).expect(201)
    api.delete(five.path(ns, "a")).expect(200)
    api.patch(five.path(ns, "b"), {"spec": {"size": 4}}).expect(200)
    listing = api.get(five.path(ns), resourceVersion=version, resourceVersionMatch="Exact").expect(200)
    assert [item["metadata"]["name"] for item in listing["items"]] == list("abcde")
    assert "spec" not in listing["items"][1]
    assert listing["metadata"]["resourceVersion"] == version
    assert "z" not in names(api.get(five.path(ns), resourceVersion=version, limit=50))
    fresh = api.get(five.path(ns), resourceVersion=version, resourceVersionMatch="NotOlderThan")
    assert "z" in names(fresh)
    assert int(fresh.json()["metadata"]["resourceVersion"]) >= int(version)


@pytest.mark.behaviour("sandbox/LS-13")
@pytest.mark.behaviour("sandbox/LS-14")
@pytest.mark.behaviour("sandbox/LS-15")
@pytest.mark.behaviour("sandbox/LS-16")
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersion": "1", "resourceVersionMatch": "Foo"}, 422),
        ({"resourceVersion": "abc"}, 400),
        ({"resourceVersion": "100000000"}, 504),
        ({"sendInitialEvents": "true"}, 422),
        ({"limit": "many"}, 400),
        ({"timeoutSeconds": "long", "watch": "1"}, 400),
    ],
)
def test_invalid_options_are_refused(api: Api, ns: str, query: dict[str, str], code: int) -> None:
    reasons = {400: "BadRequest", 422: "Invalid", 504: "Timeout"}
    api.get(core(ns, "configmaps"), **query).fails(code, reasons[code])


SELECTIONS = [
    ("k=v1", "a"),
    ("k==v1", "a"),
    ("k!=v1", "bc"),
    ("k in (v1,v2)", "ab"),
    ("k notin (v1)", "bc"),
    ("k", "ab"),
    ("!k", "c"),
    ("k,tier=x", "a"),
    ("n>5", "a"),
    ("n<5", "b"),
    ("k in ( v1 )", "a"),
    ("in=x", ""),
    ("k=", ""),
]


@pytest.mark.behaviour("sandbox/LS-17")
def test_label_selectors(api: Api, ns: str) -> None:
    labels: dict[str, dict[str, str]] = {"a": {"k": "v1", "tier": "x", "n": "7"}, "b": {"k": "v2", "n": "3"}, "c": {}}
    for name, own_labels in labels.items():
        api.post(core(ns, "secrets"), {"metadata": {"name": name, "labels": own_labels}}).expect(201)
    for selector, wanted in SELECTIONS:
        assert "".join(names(api.get(core(ns, "secrets"), labelSelector=selector))) == wanted, selector


@pytest.mark.behaviour("sandbox/LS-18")
def test_empty_values_are_values(api: Api, ns: str) -> None:
    body = {"metadata": {"name": "a", "labels": {"x.example.org/k": ""}}}
    api.post(core(ns, "secrets"), body).expect(201)
    for selector in ("x.example.org/k=", "x.example.org/k in ()"):
        assert names(api.get(core(ns, "secrets"), labelSelector=selector)) == ["a"]


@pytest.mark.behaviour("sandbox/LS-19")
@pytest.mark.parametrize("selector", ["k in v1", "a=b=c", "=x", "k in (a", "k in", ",", "a,,b", "k>x"])
def test_invalid_selectors_are_refused(api: Api, ns: str, selector: str) -> None:
    api.get(core(ns, "secrets"), labelSelector=selector).fails(400, "BadRequest")


@pytest.mark.behaviour("findings/FS15")
def test_a_missing_flag_is_false_for_field_selectors(each_api: Api, namespace: str) -> None:
    each_api.post(core(namespace, "pods"), pod("p")).expect(201)
    each_api.post(core(namespace, "pods"), pod("h", hostNetwork=True)).expect(201)
    for selector, wanted in (("=false", ["p"]), ("!=false", ["h"]), ("=true", ["h"]), ("!=true", ["p"]), ("=", [])):
        assert names(each_api.get(core(namespace, "pods"), fieldSelector=f"spec.hostNetwork{selector}")) == wanted
    each_api.post("/api/v1/nodes", {"metadata": {"name": f"{namespace}-n"}}).expect(201)
    schedulable = names(each_api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false"))
    assert f"{namespace}-n" in schedulable
    each_api.delete(f"/api/v1/nodes/{namespace}-n").expect(200)


@pytest.mark.behaviour("sandbox/LS-20")
@pytest.mark.behaviour("sandbox/LS-21")
def test_field_selectors(api: Api, ns: str, widgets: Crd) -> None:
    for name in "ab":
        api.post(widgets.path(ns), widgets.obj(name)).expect(201)
    for selector, wanted in (("metadata.name=a", ["a"]), ("metadata.name!=a", ["b"]), ("metadata.name==a", ["a"])):
        assert names(api.get(widgets.path(ns), fieldSelector=selector)) == wanted
    api.get(widgets.path(ns), fieldSelector="spec.color=red").fails(400, "BadRequest")


@pytest.mark.behaviour("sandbox/LS-22")
def test_pods_are_selected_by_node_and_phase(api: Api, ns: str) -> None:
    api.post(core(ns, "pods"), pod()).expect(201)
    for selector in ("spec.nodeName=", "status.phase!=Running"):
        assert names(api.get(core(ns, "pods"), fieldSelector=selector)) == ["p"]
    assert names(api.get(core(ns, "pods"), fieldSelector="status.phase=Running")) == []


@pytest.mark.behaviour("sandbox/LS-23")
def test_secrets_are_selected_by_type(api: Api, ns: str) -> None:
    for name in "ab":
        api.post(core(ns, "secrets"), {"metadata": {"name": name}, "type": f"t.example.org/{name}"}).expect(201)
    assert names(api.get(core(ns, "secrets"), fieldSelector="type=t.example.org/a")) == ["a"]


@pytest.mark.behaviour("sandbox/LS-24")
def test_events_are_selected_by_involved_object(api: Api, ns: str) -> None:
    for name, kind in (("x", "Pod"), ("y", "Pod"), ("x", "Node"), ("y", "Node")):
        about = {"kind": kind, "name": name, "namespace": ns}
        event = {"metadata": {"name": f"{kind.lower()}-{name}"}, "involvedObject": about}
        api.post(core(ns, "events"), event).expect(201)
    for selector, wanted in (
        ("involvedObject.name=x,involvedObject.kind=Pod", ["pod-x"]),
        ("involvedObject.name=x", ["node-x", "pod-x"]),
        ("involvedObject.kind!=Pod", ["node-x", "node-y"]),
        ("involvedObject.name=z", []),
    ):
        assert sorted(names(api.get(core(ns, "events"), fieldSelector=selector))) == wanted, selector


@pytest.mark.behaviour("findings/FS29")
def test_events_of_either_group_are_selected_by_their_source(api: Api, ns: str) -> None:
    new = f"/apis/events.k8s.io/v1/namespaces/{ns}/events"
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": ns, "name": "p"}
    kind, more = {"apiVersion": "v1", "kind": "Event"}, {"involvedObject": about, "reason": "R", "message": "m"}
    old = {**kind, "metadata": {"name": "old"}, **more, "source": {"component": "one"}, "reportingComponent": "two"}
    api.post(core(ns, "events"), old).expect(201)
    event = {"regarding": about, "reason": "R", "type": "Normal", "note": "n", "action": "Does"}
    event |= {"reportingController": "one", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z"}
    new_event = api.post(new, {"metadata": {"name": "new"}, **event}).expect(201)
    # In the core group, a source without a component is the reporting controller.
    assert names(api.get(core(ns, "events"), fieldSelector="source=one")) == ["new", "old"]
    assert names(api.get(core(ns, "events"), fieldSelector="source=two")) == []
    assert names(api.get(new, fieldSelector="reportingController=one")) == ["new"]
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    patched = api.patch(f"{new}/new", {"series": series}).expect(200)
    assert patched["series"] == series
    assert api.get(f"{new}/new").expect(200) == patched
    assert int(patched["metadata"]["resourceVersion"]) > int(new_event["metadata"]["resourceVersion"])
    api.delete(f"{new}/new").expect(200)
    assert names(api.get(core(ns, "events"))) == ["old"]


@pytest.mark.behaviour("sandbox/LS-25")
def test_a_list_of_metadata(api: Api, ns: str, five: Crd) -> None:
    listing = api.get(five.path(ns), PARTIAL_LIST).expect(200)
    assert listing["kind"] == "PartialObjectMetadataList"
    assert {item["kind"] for item in listing["items"]} == {"PartialObjectMetadata"}
    assert all(item.keys() == {"apiVersion", "kind", "metadata"} for item in listing["items"])
    api.get(five.path(ns), PARTIAL).fails(406)


@pytest.mark.behaviour("sandbox/LS-26")
def test_selectable_fields(api: Api, ns: str, make_crd: Callable[..., Crd]) -> None:
    crd = make_crd(selectableFields=[{"jsonPath": ".spec.color"}]).establish()
    watch = api.watch(crd.path(ns), fieldSelector="spec.color=red")
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        api.post(crd.path(ns), crd.obj(name, color=color)).expect(201)
    assert names(api.get(crd.path(ns), fieldSelector="spec.color=red")) == ["a", "c"]
    assert [event["object"]["metadata"]["name"] for event in watch.take(2)] == ["a", "c"]
    api.delete(crd.path(ns), fieldSelector="spec.color=red").expect(200)
    assert names(api.get(crd.path(ns))) == ["b"]


@pytest.mark.behaviour("sandbox/LS-27")
@pytest.mark.parametrize("value", ["false", "False", "FALSE", "0"])
def test_watch_may_be_false(api: Api, ns: str, value: str) -> None:
    assert api.get(core(ns, "configmaps"), watch=value).expect(200)["kind"] == "ConfigMapList"


def test_head_requests_are_refused(api: Api, ns: str) -> None:
    assert api.request("HEAD", core(ns, "configmaps")).status == 405


@pytest.mark.behaviour("sandbox/TB-06")
def test_tables_come_in_chunks(api: Api, ns: str, five: Crd) -> None:
    first = api.get(five.path(ns), TABLE, limit=4).expect(200)
    token = first["metadata"]["continue"]
    second = api.get(five.path(ns), TABLE, **{"limit": 4, "continue": token}).expect(200)
    assert (len(first["rows"]), len(second["rows"])) == (4, 1)


def test_missing_subresources_are_not_found(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    for sub in ("status", "scale", "nope"):
        answer = api.get(core(ns, "configmaps", f"a/{sub}")).fails(404, "NotFound")
        assert answer["message"] == "the server could not find the requested resource"


def test_the_log_of_an_unscheduled_pod_is_empty(each_api: Api, namespace: str) -> None:
    each_api.post(core(namespace, "pods"), pod("a")).expect(201)
    answer = each_api.get(core(namespace, "pods", "a/log"))
    assert (answer.status, answer.body) == (204, b"")
    assert not {"content-length", "transfer-encoding", "content-type"} & {name.lower() for name in answer.headers}
    # The connection stays usable.
    each_api.get(core(namespace, "pods", "a")).expect(200)


@pytest.mark.parametrize(
    ("plural", "text"),
    [
        ("configmaps", '"nope" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("pods", "field label not supported: nope"),
    ],
)
def test_an_unsupported_field_selector_is_named(api: Api, ns: str, plural: str, text: str) -> None:
    assert text in api.get(core(ns, plural), fieldSelector="nope=x").fails(400, "BadRequest")["message"]
