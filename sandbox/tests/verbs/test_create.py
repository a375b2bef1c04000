"""Create."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.encoding.negotiation import decode_yaml

from sandbox.tests.conftest import Crd
from tests.support.http_client import Api
from tests.support.objects import (
    apps,
    changed,
    config_map,
    container,
    core,
    deployment,
    ingress,
    pod,
)

UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.mark.behaviour("sandbox/CT-01")
@pytest.mark.behaviour("sandbox/CT-02")
def test_the_server_sets_metadata(api: Api, ns: str) -> None:
    metadata = api.post(core(ns, "configmaps"), config_map()).expect(201)["metadata"]
    assert UID.fullmatch(metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 0
    assert "generation" not in metadata
    assert metadata["namespace"] == ns


@pytest.mark.behaviour("sandbox/CT-03")
def test_another_namespace_in_the_body_is_refused(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map(namespace="other")).fails(400, "BadRequest")


@pytest.mark.behaviour("sandbox/CT-04")
def test_a_namespace_must_exist(api: Api) -> None:
    status = api.post(core("nowhere", "configmaps"), config_map()).fails(404, "NotFound")
    assert status["details"]["kind"] == "namespaces"


@pytest.mark.behaviour("sandbox/CT-05")
def test_a_name_is_used_once(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    assert api.post(core(ns, "configmaps"), config_map()).fails(409, "AlreadyExists")["details"]["name"] == "a"


@pytest.mark.behaviour("sandbox/CT-06")
def test_names_are_generated(api: Api, ns: str) -> None:
    body = {"metadata": {"generateName": "a-"}}
    copies = [api.post(core(ns, "configmaps"), body).expect(201)["metadata"] for _ in range(2)]
    assert copies[0]["name"] != copies[1]["name"]
    for metadata in copies:
        assert re.fullmatch(r"a-[a-z0-9]{5}", metadata["name"])
        assert metadata["generateName"] == "a-"


@pytest.mark.behaviour("sandbox/CT-07")
def test_a_long_prefix_is_truncated(api: Api, ns: str) -> None:
    prefix = "abcdefghij" * 7
    name = api.post(core(ns, "configmaps"), {"metadata": {"generateName": prefix}}).expect(201)["metadata"]["name"]
    assert len(name) == 63
    assert name[:58] == prefix[:58]


@pytest.mark.behaviour("sandbox/CT-08")
def test_a_name_is_required(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), {"metadata": {}}).fails(422, "Invalid", "metadata.name", "FieldValueRequired")


@pytest.mark.behaviour("sandbox/CT-09")
def test_metadata_that_the_server_owns_is_ignored(api: Api, ns: str) -> None:
    time = "2001-01-01T00:00:00Z"
    body = config_map(uid="mine", creationTimestamp=time, deletionTimestamp=time)
    metadata = api.post(core(ns, "configmaps"), body).expect(201)["metadata"]
    assert UID.fullmatch(metadata["uid"])
    assert metadata["creationTimestamp"] != time
    assert "deletionTimestamp" not in metadata


@pytest.mark.behaviour("sandbox/CT-10")
def test_a_new_object_has_no_resource_version(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map(resourceVersion="1")).fails(500, "")
    api.get(core(ns, "configmaps", "a")).fails(404)


@pytest.mark.behaviour("sandbox/CT-11")
def test_built_in_objects_may_omit_their_type(api: Api, ns: str) -> None:
    obj = api.post(core(ns, "configmaps"), {"metadata": {"name": "a"}}).expect(201)
    assert (obj["apiVersion"], obj["kind"]) == ("v1", "ConfigMap")


@pytest.mark.behaviour("sandbox/CT-12")
def test_custom_objects_must_have_their_type(api: Api, ns: str, widgets: Crd) -> None:
    body = widgets.obj()
    del body["kind"]
    api.post(widgets.path(ns), body).fails(400, "BadRequest")
    api.post(widgets.path(ns), {**widgets.obj(), "kind": "Other"}).fails(422, "Invalid", "kind")


@pytest.mark.behaviour("sandbox/CT-13")
def test_a_body_without_content_type_is_json(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map(), content_type=None).expect(201)


@pytest.mark.behaviour("sandbox/CT-14")
def test_other_content_types_are_refused(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), b"<a/>", content_type="text/xml").fails(415, "UnsupportedMediaType")


@pytest.mark.behaviour("findings/FS12")
@pytest.mark.parametrize("form", ["each", "list"])
def test_merge_keys_of_yaml_are_bounded(api: Api, ns: str, form: str) -> None:
    base = "base: &base {" + ", ".join(f"k{n}: {n}" for n in range(15_000)) + "}\n"
    merges = (
        "".join(f"b{n}: {{<<: *base}}\n" for n in range(99))
        if form == "each"
        else f"b: {{<<: [{', '.join(['*base'] * 99)}]}}\n"
    )
    visited = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal visited
        visited += event == "call" and frame.f_code.co_name in ("flatten_mapping", "construct_mapping")

    sys.setprofile(count)
    try:
        with pytest.raises(Failure, match="too many aliases"):
            decode_yaml((base + merges).encode())
    finally:
        sys.setprofile(None)
    assert visited == 0
    answer = api.post(core(ns, "configmaps"), (base + merges).encode(), content_type="application/yaml")
    answer.fails(400, "BadRequest")
    merged = b"{metadata: {name: m}, x: &x {a: b}, data: {<<: *x, c: d}}"
    obj = api.post(core(ns, "configmaps"), merged, content_type="application/yaml").expect(201)
    assert obj["data"] == {"a": "b", "c": "d"}


@pytest.mark.behaviour("sandbox/CT-15")
def test_yaml_is_accepted(api: Api, ns: str, widgets: Crd) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {at: '2001-01-01'}\n"
    assert (
        api.post(core(ns, "configmaps"), text, content_type="application/yaml").expect(201)["data"]["at"]
        == "2001-01-01"
    )
    text = f"apiVersion: {widgets.group}/v1\nkind: Widget\nmetadata: {{name: a}}\nspec: {{size: 3}}\n".encode()
    assert api.post(widgets.path(ns), text, content_type="application/yaml").expect(201)["spec"]["size"] == 3


@pytest.mark.behaviour("sandbox/CT-16")
def test_broken_json_is_refused(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), b'{"a":').fails(400, "BadRequest")


@pytest.mark.behaviour("sandbox/CT-17")
def test_another_version_in_the_body_is_refused(api: Api, ns: str) -> None:
    api.post(apps(ns, "deployments"), {**deployment(), "apiVersion": "apps/v1beta9"}).fails(400, "BadRequest")


@pytest.mark.behaviour("sandbox/CT-18")
@pytest.mark.behaviour("sandbox/CT-19")
@pytest.mark.behaviour("sandbox/CT-20")
@pytest.mark.behaviour("sandbox/CT-22")
def test_unknown_fields_are_refused_reported_or_dropped(api: Api, ns: str) -> None:
    path, body = apps(ns, "deployments"), deployment(foo=1)
    assert "unknown field" in api.post(path, body, fieldValidation="Strict").fails(400)["message"]
    for name, query in (("w", {"fieldValidation": "Warn"}), ("n", {})):
        answer = api.post(path, changed(body, name=name), **query)
        assert "foo" not in answer.expect(201)["spec"]
        assert any("spec.foo" in text for text in answer.warnings)
    answer = api.post(path, changed(body, name="i"), fieldValidation="Ignore")
    assert "foo" not in answer.expect(201)["spec"]
    assert answer.warnings == []
    api.post(path, body, fieldValidation="Foo").fails(422)


@pytest.mark.behaviour("sandbox/CT-21")
def test_a_duplicate_key_is_refused_on_request(api: Api, ns: str) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}'
    refused = api.post(core(ns, "configmaps"), body, fieldValidation="Strict").fails(400)["message"]
    assert 'strict decoding error: duplicate field "data.k"' in refused
    warnings = api.post(core(ns, "configmaps"), body, fieldValidation="Warn").warnings
    assert any("duplicate field" in warning and "data.k" in warning for warning in warnings)


@pytest.mark.behaviour("sandbox/CT-27")
def test_status_is_ignored_at_creation(api: Api, ns: str) -> None:
    obj = api.post(apps(ns, "deployments"), {**deployment(replicas=0), "status": {"replicas": 7}}).expect(201)
    assert obj["status"].get("replicas", 0) == 0


@pytest.mark.behaviour("sandbox/CT-28")
def test_invalid_names_are_refused(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map("Foo_bar")).fails(422, "Invalid", "metadata.name", "FieldValueInvalid")


@pytest.mark.behaviour("sandbox/CT-29")
def test_a_value_of_the_wrong_type_is_400(api: Api, ns: str) -> None:
    api.post(apps(ns, "deployments"), deployment(replicas="x")).fails(400, "BadRequest")


@pytest.mark.behaviour("sandbox/CT-30")
def test_empty_metadata_is_dropped(api: Api, ns: str) -> None:
    body = config_map(creationTimestamp=None, annotations={}, labels=None)
    api.post(core(ns, "configmaps"), body).expect(201)
    metadata = api.get(core(ns, "configmaps", "a")).json()["metadata"]
    assert not {"annotations", "labels"} & metadata.keys()
    assert metadata["creationTimestamp"]


def event(ns: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T12:00:00.500000+02:00",
        "reportingController": "c",
        "reportingInstance": "i",
        "action": "Do",
        "reason": "Done",
        "type": "Normal",
        "note": "hello",
        "regarding": {"kind": "Pod", "name": "p", "namespace": ns, "apiVersion": "v1"},
        **more,
    }


@pytest.mark.parametrize("time", ["2026-01-01T12:00:00Z", "2026-01-01T12:00:00.5Z", "2026-01-01T12:00:00.5000000Z"])
def test_a_microtime_has_six_digits(api: Api, ns: str, time: str) -> None:
    refused = api.post(f"/apis/events.k8s.io/v1/namespaces/{ns}/events", event(ns, eventTime=time)).expect(400)
    assert 'as "2006-01-02T15:04:05.000000Z07:00": cannot parse ' in refused["message"]


@pytest.mark.behaviour("sandbox/CT-31")
@pytest.mark.behaviour("sandbox/CT-32")
def test_an_event_is_one_object_in_two_groups(api: Api, ns: str) -> None:
    stored = api.post(f"/apis/events.k8s.io/v1/namespaces/{ns}/events", event(ns)).expect(201)
    assert stored["eventTime"] == "2026-01-01T10:00:00.500000Z"
    old = api.get(core(ns, "events", "e")).expect(200)
    assert (old["metadata"]["uid"], old["message"]) == (stored["metadata"]["uid"], "hello")
    assert old["involvedObject"] == stored["regarding"]
    assert old["reportingComponent"] == "c"


def test_a_new_event_is_complete_and_in_the_namespace_of_its_object(api: Api, ns: str) -> None:
    path = f"/apis/events.k8s.io/v1/namespaces/{ns}/events"
    wrong: list[tuple[dict[str, Any], list[str]]] = [
        ({"eventTime": None}, ["eventTime"]),
        ({"action": "", "reportingController": "c d", "type": "Odd"}, ["reportingController", "action", "type"]),
        ({"reason": "r" * 129, "reportingInstance": ""}, ["reportingInstance", "reason"]),
        ({"note": "n" * 1025}, ["message"]),
        ({"regarding": {"kind": "Pod", "name": "x"}}, ["involvedObject.namespace"]),
    ]
    for change, fields in wrong:
        causes = api.post(path, {**event(ns), **change}).fails(422, "Invalid")["details"]["causes"]
        assert [cause["field"] for cause in causes] == fields
    # A legacy event has no eventTime, and needs fewer fields.
    about = {"kind": "Pod", "namespace": ns, "name": "x"}
    api.post(core(ns, "events"), {"metadata": {"name": "old"}, "involvedObject": about, "type": "Odd"}).expect(201)


def test_a_new_ingress_gets_the_default_class_unless_it_names_one(api: Api, ns: str) -> None:
    classes, path = "/apis/networking.k8s.io/v1/ingressclasses", f"/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses"
    name = f"{ns}-default"
    metadata = {"name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
    refused = api.post(classes, {"metadata": metadata, "spec": {"controller": "no-path"}}).fails(422, "Invalid")
    assert 'must be a domain-prefixed path (such as "acme.io/foo")' in refused["message"]
    api.post(path, ingress("before")).expect(201)
    api.post(classes, {"metadata": metadata, "spec": {"controller": "example.org/c"}}).expect(201)
    try:
        assert api.post(path, ingress("without")).expect(201)["spec"]["ingressClassName"] == name
        named = ingress("named")
        named["spec"]["ingressClassName"] = "other"
        assert api.post(path, named).expect(201)["spec"]["ingressClassName"] == "other"
        legacy = {"kubernetes.io/ingress.class": "third"}
        annotated = ingress("annotated")
        annotated["metadata"]["annotations"] = legacy
        answer = api.post(path, annotated)
        assert "ingressClassName" not in answer.expect(201)["spec"]
        assert any("is deprecated" in text for text in answer.warnings)
        named["metadata"] = {"name": "both", "annotations": legacy}
        api.post(path, named).fails(422, "Invalid", "annotations.kubernetes.io/ingress.class")
        # Only a creation sets it.
        label = api.patch(f"{path}/before", {"metadata": {"labels": {"a": "b"}}}).expect(200)
        assert "ingressClassName" not in label["spec"]
        api.patch(f"{path}/before", {"spec": {"ingressClassName": "Bad_"}}).fails(
            422, "Invalid", "spec.ingressClassName"
        )
    finally:
        api.delete(f"{classes}/{name}").expect(200)


@pytest.mark.behaviour("sandbox/CT-33")
def test_a_post_to_an_object_is_refused(api: Api, ns: str) -> None:
    assert api.post(core(ns, "configmaps", "a"), config_map()).status == 405


@pytest.mark.behaviour("sandbox/CT-34")
def test_the_size_of_a_body_is_limited(api: Api, ns: str) -> None:
    answer = api.post(core(ns, "configmaps"), config_map(data={"k": "x" * (4 * 1024 * 1024)}))
    answer.fails(413, "RequestEntityTooLarge")
    api.get(core(ns, "configmaps")).expect(200)


@pytest.mark.behaviour("sandbox/CT-35")
def test_an_owner_reference_needs_a_uid(api: Api, ns: str) -> None:
    # A real server names the field without the index.
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}
    api.post(core(ns, "configmaps"), config_map(ownerReferences=[owner])).fails(
        422, "Invalid", "metadata.ownerReferences.uid"
    )


@pytest.mark.behaviour("sandbox/CT-36")
def test_unknown_fields_of_custom_objects_are_pruned(api: Api, ns: str, widgets: Crd) -> None:
    assert api.post(widgets.path(ns), widgets.obj(size=1, extra=True)).expect(201)["spec"] == {"size": 1}


@pytest.mark.behaviour("sandbox/CT-37")
def test_nothing_is_created_in_a_terminating_namespace(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "held")
    api.post(core(ns, "configmaps"), config_map("held", finalizers=["t.example.org/hold"])).expect(201)
    api.delete(f"/api/v1/namespaces/{ns}").expect(200)
    status = api.post(core(ns, "configmaps"), config_map("b")).fails(403, "Forbidden", cause="NamespaceTerminating")
    assert status["details"]["causes"][0]["field"] == "metadata.namespace"
    api.patch(path, {"metadata": {"finalizers": None}}).expect(200)
    api.gone(f"/api/v1/namespaces/{ns}")


@pytest.mark.behaviour("sandbox/CT-38")
def test_invalid_label_values_are_refused(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map(labels={"a": "b c"})).fails(422, "Invalid", "metadata.labels")


@pytest.mark.behaviour("sandbox/CT-39")
def test_a_selector_must_match_its_template(api: Api, ns: str) -> None:
    body = deployment(selector={"matchLabels": {"app": "y"}})
    api.post(apps(ns, "deployments"), body).fails(422, "Invalid", "spec.template.metadata.labels")


@pytest.mark.behaviour("sandbox/CT-40")
def test_container_names_are_unique(api: Api, ns: str) -> None:
    twice = [container("a"), container("a")]
    field = "spec.template.spec.containers[1].name"
    api.post(apps(ns, "deployments"), deployment("d", *twice)).fails(422, "Invalid", field, "FieldValueDuplicate")
    api.post(core(ns, "pods"), pod(containers=twice)).fails(
        422, "Invalid", "spec.containers[1].name", "FieldValueDuplicate"
    )


VERSIONS = {
    **dict.fromkeys(("v1", "0", "-1", "00", "+1", " 1", "1.0", "0x10", "18446744073709551616", "9" * 5000), 201),
    **dict.fromkeys(("1", "01", "18446744073709551615"), 500),
}


@pytest.mark.behaviour("findings3/NS15")
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: repr(version[:24]))
def test_only_a_positive_version_is_refused(each_api: Api, namespace: str, version: str) -> None:
    answer = each_api.post(core(namespace, "configmaps"), config_map("a", resourceVersion=version))
    if VERSIONS[version] == 201:
        assert int(answer.expect(201)["metadata"]["resourceVersion"]) > 1
    else:
        assert answer.fails(500)["message"] == "resourceVersion should not be set on objects to be created"
