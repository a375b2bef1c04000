"""Request bodies in protobuf: Kubernetes' own golden files where the Go module cache has them, and hand-made ones."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ctrlhost_sandbox.encoding import protobuf
from ctrlhost_sandbox.registry.builtin import builtin_kinds
from ctrlhost_sandbox.schema.normalize import conform
from ctrlhost_sandbox.schema.shapes import of_kind

from sandbox.tests.conftest import Crd, crd_body
from tests.support.control_plane import BINARY, KubeApiserver, require_kube_apiserver
from tests.support.http_client import Api
from tests.support.objects import core, deployment, ingress
from tests.support.rbac_rig import GROUP, account, api_of, reference, rule, user
from tests.support.waiting import eventually

PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPT = {"Accept": f"{PROTOBUF},application/json"}
NAMESPACE = bytes.fromhex(
    "6b3873000a0f0a02763112094e616d657370616365121b0a130a03666f6f12001a0022002a0032003800420012001a020a001a002200"
)
#: Every served kind, and the bodies of sub-resources. Two groups are defined in modules without golden files.
NOT_GOLDEN = ("apiextensions.k8s.io", "apiregistration.k8s.io")
GOLDEN = [
    *(f"{kind.group or 'core'}.{kind.version}.{kind.kind}" for kind in builtin_kinds() if kind.group not in NOT_GOLDEN),
    "autoscaling.v1.Scale",
    "authentication.k8s.io.v1.TokenRequest",
    "policy.v1.Eviction",
]


def varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def field(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def meta(name: str) -> bytes:
    return field(1, field(1, name))


@pytest.fixture(scope="module")
def golden() -> Path:
    require_kube_apiserver()  # its build downloads the module with the files
    own = BINARY.with_name("toolchain") / "bin" / "go"
    go = shutil.which("go") or str(own)
    cache = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    return max(Path(cache, "k8s.io").glob("api@v0.36*/testdata/HEAD"))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_messages_decode_to_their_json(golden: Path, name: str) -> None:
    wanted = json.loads((golden / f"{name}.json").read_text())
    message = protobuf.decode((golden / f"{name}.pb").read_bytes())
    for claim in wanted.get("spec", {}).get("volumeClaimTemplates", ()):
        # The server writes these two, which protobuf has no place for.
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    assert dict(leaves(message)) == dict(leaves(wanted))


def strings(**numbered: str) -> bytes:
    """Return string fields; a name is `_` and the number."""
    return b"".join(field(int(name[1:]), value) for name, value in numbered.items())


LABEL = strings(_1="app", _2="x")
TEMPLATE = field(1, field(11, LABEL)) + field(2, field(2, strings(_1="a", _2="nginx:1")))
BACKEND = field(4, field(1, "s") + field(2, field(2, 80)))
PATH = field(1, "/") + field(2, BACKEND) + field(3, "Prefix")
#: Version, kind, the message without its metadata, and the same as JSON.
SAME = [
    ("v1", "Namespace", b"", {}),
    (
        "v1",
        "ConfigMap",
        field(2, strings(_1="a", _2="b")) + field(3, field(1, "c") + field(2, b"\x00\x01")) + field(4, 1),
        {"data": {"a": "b"}, "binaryData": {"c": "AAE="}, "immutable": True},
    ),
    (
        "v1",
        "Secret",
        field(2, strings(_1="a", _2="ab")) + field(3, "Opaque") + field(4, strings(_1="s", _2="t")),
        {"data": {"a": "YWI="}, "stringData": {"s": "t"}, "type": "Opaque"},
    ),
    (
        "v1",
        "Service",
        field(2, field(1, field(1, "w") + field(3, 80) + field(4, field(1, 1) + field(3, "web"))) + field(2, LABEL)),
        {"spec": {"ports": [{"name": "w", "port": 80, "targetPort": "web"}], "selector": {"app": "x"}}},
    ),
    (
        "v1",
        "ServiceAccount",
        field(2, strings(_3="s")) + field(4, 0),
        {"automountServiceAccountToken": False, "secrets": [{"name": "s"}]},
    ),
    (
        "apps/v1",
        "Deployment",
        field(2, field(1, 2) + field(2, field(1, LABEL)) + field(3, TEMPLATE)),
        {"spec": deployment(replicas=2)["spec"]},
    ),
    (
        "networking.k8s.io/v1",
        "Ingress",
        field(2, field(3, field(1, "a.example.org") + field(2, field(1, field(1, PATH))))),
        {"spec": ingress()["spec"]},
    ),
    (
        f"{GROUP}/v1",
        "Role",
        field(2, strings(_1="get") + strings(_1="list") + strings(_2="", _3="pods", _4="a")),
        {"rules": [rule("get list", "core", "pods", "a")]},
    ),
    (
        f"{GROUP}/v1",
        "RoleBinding",
        field(2, strings(_1="User", _2=GROUP, _3="ann"))
        + field(2, strings(_1="ServiceAccount", _3="sa", _4="default"))
        + field(3, strings(_1=GROUP, _2="ClusterRole", _3="view")),
        {"roleRef": reference("view"), "subjects": [user("ann"), account("default", "sa")]},
    ),
]


@pytest.mark.behaviour("sandbox/PB-01")
@pytest.mark.parametrize(("api_version", "kind", "message", "body"), SAME, ids=[kind for _, kind, *_ in SAME])
def test_protobuf_and_json_create_the_same_object(
    api: Api, ns: str, api_version: str, kind: str, message: bytes, body: dict[str, Any]
) -> None:
    group, _, version = api_version.rpartition("/")
    builtin = next(
        entry for entry in builtin_kinds() if (entry.group, entry.version, entry.kind) == (group, version, kind)
    )
    base = f"/apis/{api_version}" if group else f"/api/{version}"
    path = f"{base}/namespaces/{ns}/{builtin.plural}" if builtin.namespaced else f"{base}/{builtin.plural}"
    answers = []
    for form in ("pb", "json"):
        name = f"{ns}-{form}"
        labelled = field(1, field(1, name) + field(11, strings(_1="x", _2="y")))
        sent = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": {"x": "y"}}, **body}
        raw = envelope(api_version, kind, labelled + message) if form == "pb" else sent
        content_type = PROTOBUF if form == "pb" else "application/json"
        obj = api.post(path, raw, content_type=content_type, headers=ACCEPT).expect(201)
        for name in ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields"):
            obj["metadata"].pop(name)
        obj["metadata"]["labels"].pop("kubernetes.io/metadata.name", None)
        for name in ("clusterIP", "clusterIPs"):
            obj.get("spec", {}).pop(name, None)
        answers.append(obj)
    assert answers[0] == answers[1]


def test_a_namespace_as_kubectl_sends_it(api: Api, ns: str) -> None:
    assert protobuf.decode(NAMESPACE)["metadata"]["name"] == "foo"
    renamed = envelope("v1", "Namespace", meta(f"{ns}-pb") + field(2, b"") + field(3, field(1, "")))
    api.post("/api/v1/namespaces", renamed, content_type=PROTOBUF, headers=ACCEPT).expect(201)


@pytest.mark.behaviour("sandbox/PB-02")
def test_micro_times_keep_their_digits(api: Api, ns: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l"
    acquired = field(1, 1_767_225_600)
    for code, fraction in ((201, 123_456_000), (200, 120_000_000), (200, 7_000)):
        renewed = acquired + field(2, fraction)
        spec = field(1, "me") + field(3, acquired) + field(4, renewed)
        version = b"" if code == 201 else field(6, api.get(path).json()["metadata"]["resourceVersion"])
        raw = field(1, field(1, "l") + version) + field(2, spec)
        body = envelope("coordination.k8s.io/v1", "Lease", raw)
        obj = api.put(path, body, content_type=PROTOBUF).expect(code)
        assert obj["spec"] == {
            "holderIdentity": "me",
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": f"2026-01-01T00:00:00.{fraction // 1000:06}Z",
        }
        assert api.get(path).json()["spec"] == obj["spec"]


@pytest.mark.behaviour("sandbox/PB-03")
def test_a_pointer_to_zero_is_zero(api: Api, ns: str) -> None:
    labels = field(1, field(1, "app") + field(2, "x"))
    template = field(1, field(11, field(1, "app") + field(2, "x"))) + field(
        2, field(2, field(1, "c") + field(2, "i:1"))
    )
    spec = field(1, 0) + field(2, labels) + field(3, template)
    body = envelope("apps/v1", "Deployment", meta("d") + field(2, spec))
    obj = api.post(f"/apis/apps/v1/namespaces/{ns}/deployments", body, content_type=PROTOBUF).expect(201)
    assert obj["spec"]["replicas"] == 0
    assert obj["spec"]["template"]["spec"]["containers"][0]["image"] == "i:1"


@pytest.mark.behaviour("sandbox/PB-04")
def test_custom_objects_in_protobuf_are_refused(api: Api, ns: str, widgets: Crd) -> None:
    body = envelope(f"{widgets.group}/v1", "Widget", meta("a"))
    api.post(widgets.path(ns), body, content_type=PROTOBUF).fails(415, "UnsupportedMediaType")


@pytest.mark.behaviour("sandbox/PB-05")
def test_a_review_in_protobuf(api: Api) -> None:
    attributes = field(1, "default") + field(2, "create") + field(5, "pods")
    body = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", field(2, field(1, attributes)))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for headers in (None, {"Accept": "application/json"}, ACCEPT):
        answer = api.post(path, body, content_type=PROTOBUF, headers=headers)
        review = answer.expect(201)
        assert answer.headers["content-type"] == "application/json"
        assert review["spec"]["resourceAttributes"] == {"namespace": "default", "verb": "create", "resource": "pods"}
        assert review["status"]["allowed"] is True
    # docs/sandbox.md: answers are not in protobuf.
    api.post(path, body, content_type=PROTOBUF, headers={"Accept": PROTOBUF}).fails(406, "NotAcceptable")


@pytest.mark.behaviour("sandbox/PB-06")
def test_unknown_fields_are_skipped(api: Api, ns: str) -> None:
    raw = meta("a") + field(2, field(1, "k") + field(2, "v")) + field(999, "new") + field(998, 7)
    config_map = api.post(core(ns, "configmaps"), envelope("v1", "ConfigMap", raw), content_type=PROTOBUF).expect(201)
    assert config_map["data"] == {"k": "v"}


RICH = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "description": "what is wanted",
            "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "too small"}],
            "properties": {
                "size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9.5, "exclusiveMaximum": True},
                "share": {"type": "number", "multipleOf": 0.25, "default": 0.5},
                "names": {
                    "type": "array",
                    "items": {"type": "string", "maxLength": 9},
                    "x-kubernetes-list-type": "set",
                },
                "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "colour": {"type": "string", "enum": ["red", "blue"], "nullable": True, "default": "red"},
                "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "limits": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9]+$"}},
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "boolean", "default": False}}},
    },
}


def test_a_crd_from_a_real_server_decodes_to_its_json(kube_apiserver: KubeApiserver) -> None:
    body = crd_body(
        "protobuf.test",
        schema=RICH,
        names={"plural": "gadgets", "kind": "Gadget", "shortNames": ["gd"], "categories": ["all"]},
        additionalPrinterColumns=[{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}],
        selectableFields=[{"jsonPath": ".spec.colour"}],
        subresources={"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
    )
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with api_of(kube_apiserver.kubeconfig) as api:
        api.post(path, body).expect(201)
        eventually(lambda: "Established" in str(api.get(f"{path}/gadgets.protobuf.test").json().get("status")))
        wanted, answer = api.get(f"{path}/gadgets.protobuf.test"), api.get(f"{path}/gadgets.protobuf.test", PROTOBUF)
        api.delete(f"{path}/gadgets.protobuf.test").expect(200)
    assert answer.headers["Content-Type"] == PROTOBUF
    shape = of_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    assert shape is not None
    # Normalized like every body: Go's protobuf contains zeros that its JSON omits.
    ours = conform(shape, protobuf.decode(answer.body), "CustomResourceDefinition", [])
    assert dict(leaves(ours["spec"])) == dict(leaves(wanted.json()["spec"]))


def test_every_served_kind_has_protobuf() -> None:
    assert [kind.kind for kind in builtin_kinds() if of_kind(kind.group, kind.version, kind.kind) is None] == []
