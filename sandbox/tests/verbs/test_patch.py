"""JSON patch, merge patch, and what is refused in any patch but apply."""

from __future__ import annotations

import json
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from ctrlhost_sandbox.patch.json_patch import PatchError, json_patch

from sandbox.tests.conftest import Crd
from tests.support.http_client import JSON, JSON_PATCH, MERGE, STRATEGIC, Api
from tests.support.objects import apps, config_map, container, core, deployment, lease


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.behaviour("sandbox/PA-01")
@pytest.mark.behaviour("findings/FT1")
def test_json_patch_of_a_custom_object_has_all_operations(api: Api, make_crd: Callable[..., Crd], ns: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = make_crd(schema=schema).establish()
    spec = {"a": 1, "list": [1, 2], "deep": {"x": [{"y": True}]}}
    api.post(crd.path(ns), crd.obj("a", **spec)).expect(201)
    patch = [
        op("test", "/spec/deep/x/0/y", value=True),
        op("add", "/spec/list/-", value=3),
        op("add", "/spec/list/0", value=0),
        op("replace", "/spec/a", value={"b": 5}),
        op("remove", "/spec/list/2"),
        op("copy", "/spec/copied", **{"from": "/spec/deep/x"}),
        op("move", "/spec/moved", **{"from": "/spec/deep"}),
    ]
    obj = api.patch(crd.path(ns, "a"), patch, JSON_PATCH).expect(200)
    copied = [{"y": True}]
    assert obj["spec"] == {"a": {"b": 5}, "list": [0, 1, 3], "copied": copied, "moved": {"x": copied}}
    assert api.get(crd.path(ns, "a")).expect(200) == obj
    # A failed test changes nothing.
    failing = [op("remove", "/spec/a"), op("test", "/spec/list/0", value=9)]
    api.patch(crd.path(ns, "a"), failing, JSON_PATCH).expect(422)
    assert api.get(crd.path(ns, "a")).expect(200) == obj


@pytest.mark.behaviour("sandbox/PA-01")
def test_json_patch_has_all_operations(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map(data={"a": "1", "b": "2", "c": "3"})).expect(201)
    patch = [
        op("test", "/data/a", value="1"),
        op("add", "/data/d", value="4"),
        op("replace", "/data/a", value="9"),
        op("remove", "/data/b"),
        op("copy", "/data/e", **{"from": "/data/a"}),
        op("move", "/data/f", **{"from": "/data/c"}),
    ]
    obj = api.patch(core(ns, "configmaps", "a"), patch, JSON_PATCH).expect(200)
    assert obj["data"] == {"a": "9", "d": "4", "e": "9", "f": "3"}


@pytest.mark.behaviour("sandbox/PA-02")
@pytest.mark.parametrize(
    "patch",
    [
        op("test", "/data/k", value="w"),
        op("remove", "/data/none"),
        op("replace", "/none/deep", value=""),
        op("test", "/data/none", value=""),
        op("add", "/none/deep", value=1),
        op("add", "/data/k/deep", value=1),
        op("jump", "/data/k"),
        op("remove", ""),
        op("add", "", value=config_map()),
        op("test", "", value=None),
        op("replace", "", value=None),
        op("move", "/data", **{"from": ""}),
        op("copy", "", **{"from": "/data"}),
    ],
)
def test_a_json_patch_that_does_not_apply(api: Api, ns: str, patch: dict[str, Any]) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    api.patch(core(ns, "configmaps", "a"), [patch], JSON_PATCH).fails(422, "Invalid")


def test_a_json_patch_may_replace_the_whole_object(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    path = core(ns, "configmaps", "a")
    whole = op("replace", "", value={**config_map(data={"new": "1"}), "apiVersion": "v1", "kind": "ConfigMap"})
    obj = api.patch(path, [whole], JSON_PATCH).expect(200)
    assert obj["data"] == {"new": "1"}
    answer = api.patch(path, [op("remove", "/metadata")], JSON_PATCH).fails(400, "BadRequest")
    assert "the name of the object (a based on URL) was undeterminable" in answer["message"]


@pytest.mark.behaviour("sandbox/PA-03")
@pytest.mark.parametrize("body", [b'{"op":"add"}', b'[{"op":', b"[1]"])
def test_a_malformed_json_patch_is_refused(api: Api, ns: str, body: bytes) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    api.patch(core(ns, "configmaps", "a"), body, JSON_PATCH).fails(400, "BadRequest")


def test_the_operations_of_a_json_patch_are_limited(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    patch = [op("add", "/data/k", value="v")] * 10_001
    api.patch(core(ns, "configmaps", "a"), patch, JSON_PATCH).fails(413, "RequestEntityTooLarge")


@pytest.mark.behaviour("findings/FS10")
def test_a_json_patch_replaces_and_copies_a_missing_key_of_an_object(each_api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "a")
    each_api.post(core(namespace, "configmaps"), config_map()).expect(201)
    obj = each_api.patch(path, [op("replace", "/data/new", value="1")], JSON_PATCH).expect(200)
    assert obj["data"] == {"k": "v", "new": "1"}
    copied = [op("copy", "/data/copied", **{"from": "/data/none"})]
    assert each_api.patch(path, copied, JSON_PATCH).expect(200)["data"]["k"] == "v"
    replaced = [op("add", "/metadata/finalizers", value=["a.b/c"]), op("replace", "/metadata/finalizers/1", value="d")]
    each_api.patch(path, replaced, JSON_PATCH).fails(422, "Invalid")


@pytest.mark.behaviour("findings/FS11")
def test_the_copies_of_a_json_patch_are_bounded(each_api: Api, namespace: str) -> None:
    path = core(namespace, "configmaps", "a")
    each_api.post(core(namespace, "configmaps"), config_map()).expect(201)
    doubling = [op("copy", f"/data/x{n}", **{"from": "/data"}) for n in range(40)]
    answer = each_api.patch(path, [op("add", "/data/x", value={}), *doubling], JSON_PATCH).fails(422, "Invalid")
    assert answer["message"] == "the server rejected our request due to an error in our request"
    # 3 MiB of copied JSON, with the quotes; removed copies count too.
    each_api.patch(path, [op("replace", "/data/k", value="x" * (512 * 1024 - 2))], JSON_PATCH).expect(200)
    copies = [op("copy", "/data/y", **{"from": "/data/k"}), op("remove", "/data/y")]
    each_api.patch(path, copies * 6, JSON_PATCH).expect(200)
    more = [op("copy", "/data/z", **{"from": "/metadata/name"})]
    each_api.patch(path, copies * 6 + more, JSON_PATCH).fails(422, "Invalid")


@pytest.mark.behaviour("findings/FS11")
def test_the_memory_of_copies_is_bounded() -> None:
    doubling = [op("copy", f"/data/x{n}", **{"from": "/data"}) for n in range(40)]
    tracemalloc.start()
    try:
        with pytest.raises(PatchError, match="too large"):
            json_patch({"data": {"x": {}}}, doubling)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.behaviour("sandbox/PA-04")
@pytest.mark.behaviour("sandbox/PA-05")
def test_pointers_are_unescaped_and_versions_checked(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map(annotations={"x": "y"})).expect(201)
    path = core(ns, "configmaps", "a")
    patch = [op("add", "/metadata/annotations/a.b~1c", value="d")]
    assert api.patch(path, patch, JSON_PATCH).expect(200)["metadata"]["annotations"]["a.b/c"] == "d"
    api.patch(path, [op("replace", "/metadata/resourceVersion", value="1")], JSON_PATCH).fails(409, "Conflict")


@pytest.mark.behaviour("sandbox/PA-06")
@pytest.mark.behaviour("sandbox/PA-08")
@pytest.mark.behaviour("sandbox/PA-24")
def test_merge_patch(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map(data={"a": "1", "b": "2"})).expect(201)
    path = core(ns, "configmaps", "a")
    obj = api.patch(path, {"data": {"a": None, "c": "1"}}, "application/merge-patch+json; charset=utf-8").expect(200)
    assert obj["data"] == {"b": "2", "c": "1"}
    assert api.patch(path, {"data": {"b": "3"}}).expect(200)["data"] == {"b": "3", "c": "1"}
    api.patch(path, []).fails(400, "BadRequest")


@pytest.mark.behaviour("sandbox/PA-07")
def test_merge_patch_replaces_lists(api: Api, ns: str, widgets: Crd) -> None:
    metadata = {"name": "a", "finalizers": ["t.example.org/x", "t.example.org/y"]}
    api.post(widgets.path(ns), {**widgets.obj(), "metadata": metadata}).expect(201)
    patch = {"metadata": {"finalizers": ["t.example.org/z"]}}
    obj = api.patch(widgets.path(ns, "a"), patch).expect(200)
    assert obj["metadata"]["finalizers"] == ["t.example.org/z"]


@pytest.mark.behaviour("sandbox/PA-16")
@pytest.mark.behaviour("sandbox/PA-17")
def test_unsupported_patch_types_are_refused(api: Api, ns: str, widgets: Crd) -> None:
    api.post(widgets.path(ns), widgets.obj()).expect(201)
    for content_type in (STRATEGIC, JSON):
        api.patch(widgets.path(ns, "a"), {}, content_type).fails(415, "UnsupportedMediaType")


@pytest.mark.behaviour("sandbox/PA-18")
@pytest.mark.behaviour("sandbox/PA-19")
@pytest.mark.behaviour("sandbox/PA-22")
def test_invalid_patches_are_refused(api: Api, ns: str) -> None:
    path = core(ns, "configmaps", "a")
    api.patch(path, {"data": {}}).fails(404, "NotFound")
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    api.patch(path, {"metadata": {"name": "b"}}).fails(400, "BadRequest")
    api.patch(path, {}, force="true").fails(422, "Invalid")


@pytest.mark.behaviour("sandbox/PA-20")
def test_an_invalid_result_is_not_stored(api: Api, ns: str, widgets: Crd) -> None:
    old = api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)
    api.patch(widgets.path(ns, "a"), {"spec": {"size": "big"}}).fails(422, "Invalid", "spec.size")
    assert api.get(widgets.path(ns, "a")).expect(200) == old


@pytest.mark.behaviour("sandbox/PA-23")
def test_patches_do_not_conflict(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map(data={})).expect(201)
    answers: list[int] = []

    def write(number: int) -> None:
        answers.append(api.patch(core(ns, "configmaps", "a"), {"data": {f"k{number}": "v"}}).status)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 20
    assert len(api.get(core(ns, "configmaps", "a")).json()["data"]) == 20


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (JSON_PATCH, [op("replace", "/spec", value=4)]),
        (JSON_PATCH, [op("replace", "", value=[])]),
        (JSON_PATCH, [op("remove", "")]),
        (JSON_PATCH, [op("replace", "/metadata", value=4)]),
        ("application/merge-patch+json", {"spec": []}),
        ("application/apply-patch+yaml", []),
        ("application/apply-patch+yaml", "text"),
    ],
)
def test_a_patch_that_leaves_no_scale_is_refused(api: Api, deploy: str, media: str, body: Any) -> None:
    answer = api.patch(f"{deploy}/scale?fieldManager=t", body, media)
    assert answer.status in (400, 422), answer.body
    assert api.get(f"{deploy}/scale").expect(200)["spec"] == {}


@pytest.mark.parametrize(
    ("media", "patch", "message"),
    [
        (STRATEGIC, {"spec": {"replicas": "x"}}, '"map[spec:map[replicas:x]]": unrecognized type: int32'),
        (STRATEGIC, {"spec": {"template": {"metadata": {"labels": {"a": 5}}}}}, "cannot convert int64 to string"),
        (STRATEGIC, {"spec": 1.5}, "cannot restore struct from: float64"),
        (STRATEGIC, {"metadata": {"labels": [True, None]}}, '[true <nil>]]]": cannot restore map from slice'),
        (
            "application/merge-patch+json",
            {"spec": {"template": {"spec": {"containers": [{"name": 5}]}}}},
            "cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string",
        ),
        (JSON_PATCH, [op("add", "/spec/paused", value=1)], "Go struct field DeploymentSpec.spec.paused of type"),
    ],
)
def test_a_patch_with_a_wrong_type_is_refused(api: Api, deploy: str, media: str, patch: Any, message: str) -> None:
    answer = api.patch(deploy, patch, media).fails(422, "Invalid")
    assert answer["message"].startswith(' "" is invalid: patch: Invalid value: ')
    assert message in answer["message"]


def test_a_body_with_a_wrong_type_names_the_expected_type(api: Api, ns: str) -> None:
    secret = {"metadata": {"name": "s"}, "data": {"k": "ab*d"}}
    answer = api.post(core(ns, "secrets"), secret).fails(400, "BadRequest")
    wanted = 'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 2'
    assert answer["message"] == wanted
    ports = container("a", ports={})
    answer = api.post(apps(ns, "deployments"), deployment("d", ports)).fails(400, "BadRequest")
    assert answer["message"].endswith(
        "json: cannot unmarshal object into Go struct field Container.spec.template.spec.containers.ports "
        "of type []v1.ContainerPort"
    )


def test_a_patch_does_not_change_the_uid(api: Api, ns: str) -> None:
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    answer = api.patch(core(ns, "configmaps", "a"), {"metadata": {"uid": "1"}}).fails(422, "Invalid")
    assert "metadata.uid" in answer["message"]


@pytest.mark.parametrize(
    ("media", "patch", "problems"),
    [
        (STRATEGIC, b'{"dat": {}, "data": {"x": "1", "x": "2"}}', ['duplicate field "data.x"', 'unknown field "dat"']),
        (MERGE, b'{"dat": {}, "data": {"x": "1", "x": "2"}}', ['duplicate field "data.x"', 'unknown field "dat"']),
        (
            JSON_PATCH,
            b'[{"op": "add", "path": "/dat", "value": "1", "value": "2", "odd": 3}]',
            ['json patch duplicate field "[0].value"', 'json patch unknown field "[0].odd"', 'unknown field "dat"'],
        ),
    ],
)
def test_duplicate_and_unknown_fields_of_a_patch_are_refused_or_reported(
    api: Api, ns: str, media: str, patch: bytes, problems: list[str]
) -> None:
    api.post(core(ns, "configmaps"), config_map("c", {"a": "1"})).expect(201)
    path = core(ns, "configmaps", "c")
    refused = api.patch(path, patch, media, fieldValidation="Strict").fails(422, "Invalid")
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["patch"]
    assert refused["message"].endswith(f"strict decoding error: {', '.join(problems)}")
    warned = api.patch(path, patch, media, fieldValidation="Warn")
    assert "dat" not in warned.expect(200)
    assert [text for text in problems if not any(json.dumps(text) in warning for warning in warned.warnings)] == []


def test_invalid_times_and_quantities_are_refused_with_the_text_of_a_real_server(api: Api, ns: str) -> None:
    api.post(f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", lease("l")).expect(201)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l"
    micros = '"2006-01-02T15:04:05.000000Z07:00": cannot parse'
    for text, why in (
        ("junk", f'parsing time "junk" as {micros} "junk" as "2006"'),
        ("2020-01-01T00:00:00Z", f'parsing time "2020-01-01T00:00:00Z" as {micros} "Z" as ".000000"'),
        ("2020-13-01T00:00:00.000000Z", 'parsing time "2020-13-01T00:00:00.000000Z": month out of range'),
        ("2020-11-01 00:00:00.0Z", f'parsing time "2020-11-01 00:00:00.0Z" as {micros} " 00:00:00.0Z" as "T"'),
        ("2020-02-30T00:00:00.000000Z", 'parsing time "2020-02-30T00:00:00.000000Z": day out of range'),
    ):
        body = {"spec": {"renewTime": text}}
        assert api.patch(path, body, STRATEGIC).fails(422, "Invalid", "patch")["message"].endswith(why)
    resources = {"limits": {"cpu": "bogus"}}
    refused = api.post(apps(ns, "deployments"), deployment("q", container("a", resources=resources))).fails(400)
    assert (
        "cannot be handled as a Deployment: quantities must match the regular expression '^([+-]?" in refused["message"]
    )
