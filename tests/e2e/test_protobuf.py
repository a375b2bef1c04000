"""Protobuf of a real kube-apiserver against its own JSON."""

from __future__ import annotations

import functools
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from ctrlhost.client import HttpRequest, Stream, Transport
from ctrlhost.informers import Encodings, InformerFactory, ReflectorOptions
from ctrlhost.transport.wrapped import WrappedTransport
from tests.support import plugin_modules
from tests.support.informer_rig import synced
from tests.support.objects import crd
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost.client import Client
    from ctrlhost.informers import Informer
    from tests.support.control_plane import KubeApiserver

behaviour = pytest.mark.behaviour
LABELS = {"part": "test"}
_namespaces = itertools.count(1)
config_map = functools.partial(plugin_modules.config_map, labels=LABELS)


class Recorded(WrappedTransport):
    """A transport that records what was asked for and what came."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.native_streams = inner.native_streams
        self.streams: list[tuple[str, str, str | None]] = []

    def open(self, request: HttpRequest) -> Stream:
        return self._recorded(request, super().open(request))

    async def open_async(self, request: HttpRequest) -> Stream:
        return self._recorded(request, await self.transport.open_async(request))

    def _recorded(self, request: HttpRequest, stream: Stream) -> Stream:
        query = request.query or {}
        verb = "streaming list" if query.get("sendInitialEvents") else "watch" if query.get("watch") else "list"
        self.streams.append((verb, request.headers["Accept"], stream.content_type))
        return stream


class Read:
    """One informer with a recorded transport."""

    def __init__(self, client: Client, api_version: str, kind: str, encoding: Any, **options: Any) -> None:
        reads = options.pop("reads", None)
        scope = {
            name: options.pop(name) for name in ("namespaces", "label_selector", "field_selector") if name in options
        }
        self.transport = Recorded(client.transport)
        recorded = client.derive(transport=self.transport, discovery=client.transport)
        reflector_options = ReflectorOptions(encodings=Encodings(encoding), **options)
        self.factory = InformerFactory(recorded, options=reflector_options)
        self.informer: Informer = self.factory.informer(api_version, kind, reads=reads, **scope)
        synced(self.factory)

    def objects(self) -> dict[str, Any]:
        return {obj.key: obj for obj in self.informer.lister.list()}

    def media(self, verb: str) -> set[str]:
        return {
            content.partition(";")[0] for request_verb, _, content in self.transport.streams if request_verb == verb
        }


@pytest.fixture
def reading(kube_apiserver: KubeApiserver) -> Iterator[Any]:
    """Read a kind of the real server, in an encoding."""
    reads: list[Read] = []

    def read(api_version: str, kind: str, encoding: Any = "auto", **options: Any) -> Read:
        reads.append(Read(kube_apiserver.client, api_version, kind, encoding, **options))
        return reads[-1]

    yield read
    for opened in reads:
        opened.factory.stop()


@pytest.fixture
def namespace(kube_apiserver: KubeApiserver) -> str:
    """Create a namespace in which pods may be created, on the real server."""
    name = f"protobuf-{next(_namespaces)}"
    kube_apiserver.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
    kube_apiserver.client.create(account)
    return name


PROTOBUF, JSON = "application/vnd.kubernetes.protobuf", "application/json"


def pod(name: str, namespace: str) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/", "port": "web"}, "initialDelaySeconds": 3}
    container = {
        "name": "main",
        "image": "image",
        "command": ["run", "--quote=\"'<>&\u2028"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "1.5Gi"}, "limits": {"cpu": "0.5"}},
        "ports": [{"name": "web", "containerPort": 8080}],
        "readinessProbe": probe,
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "10Mi"}}, {"name": "c", "configMap": {"name": "c"}}]
    meta = {
        "name": name,
        "namespace": namespace,
        "labels": LABELS,
        "annotations": {"a": "b"},
        "finalizers": ["test/hold"],
    }
    spec = {"containers": [container], "volumes": volumes, "tolerations": [{"operator": "Exists"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def template() -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "image"}]}}


def samples(namespace: str) -> list[dict[str, Any]]:
    def sample(api_version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
        meta = {"name": name, "labels": LABELS}
        if kind != "Node":
            meta["namespace"] = namespace
        return {"apiVersion": api_version, "kind": kind, "metadata": meta, **content}

    backend = {"service": {"name": "s", "port": {"name": "web"}}}
    rule = {"host": "x.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    selected = {"selector": {"matchLabels": LABELS}, "template": template()}
    job = template()
    job["spec"]["restartPolicy"] = "Never"
    surge = {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}, "type": "RollingUpdate"}
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": namespace}
    return [
        pod("p", namespace),
        sample("apps/v1", "Deployment", "d", spec={"replicas": 0, "strategy": surge, **selected}),
        sample(
            "v1", "Service", "s", spec={"ports": [{"name": "web", "port": 80, "targetPort": "web"}], "selector": LABELS}
        ),
        sample("networking.k8s.io/v1", "Ingress", "i", spec={"rules": [rule]}),
        sample("batch/v1", "Job", "j", spec={"template": job, "backoffLimit": 0}),
        sample("v1", "Secret", "x", type="Opaque", data={"a": "AAEC/w==", "empty": ""}),
        sample("v1", "Node", f"node-{namespace}", spec={"podCIDR": "10.0.0.0/24"}),
        sample(
            "coordination.k8s.io/v1",
            "Lease",
            "l",
            spec={"renewTime": "2026-01-02T03:04:05.123456Z", "leaseDurationSeconds": 5},
        ),
        sample(
            "v1",
            "Event",
            "e",
            involvedObject=about,
            eventTime="2026-01-02T03:04:05.000001Z",
            reportingComponent="c",
            reportingInstance="i",
            action="a",
            reason="R",
            type="Normal",
        ),
        config_map("c", namespace, x="1", empty=""),
    ]


@behaviour("scale/SC71")
def test_objects_of_a_real_server_are_the_same_in_both_encodings(
    kube_apiserver: KubeApiserver, reading: Any, namespace: str
) -> None:
    for sample in samples(namespace):
        kube_apiserver.client.create(sample)
    for sample in samples(namespace):
        api_version, kind, name = sample["apiVersion"], sample["kind"], sample["metadata"]["name"]
        as_protobuf, as_json = (reading(api_version, kind, encoding, watch_list=False) for encoding in ("auto", "json"))
        assert (as_protobuf.media("list"), as_json.media("list")) == ({PROTOBUF}, {JSON}), kind
        key = name if kind == "Node" else f"{namespace}/{name}"
        ours, other = as_protobuf.objects()[key], as_json.objects()[key]
        assert ours.to_dict() == other.to_dict(), kind
        assert ours == other
        assert json.loads(ours.to_json()) == json.loads(other.to_json())


@behaviour("scale/SC51")
def test_pods_in_pages_as_a_stream_and_watched(kube_apiserver: KubeApiserver, reading: Any, namespace: str) -> None:
    client = kube_apiserver.client
    names = [f"p{number}" for number in range(5)]
    for name in names:
        client.create(pod(name, namespace))
    scope = {"namespaces": [namespace]}
    paged = reading("v1", "Pod", watch_list=False, page_size=2, **scope)
    streamed = reading("v1", "Pod", **scope)
    as_json = reading("v1", "Pod", "json", **scope)
    assert paged.media("list") == {PROTOBUF}
    assert streamed.media("streaming list") == {PROTOBUF}
    assert as_json.media("streaming list") == {JSON}
    assert all(
        accepted == f"{PROTOBUF},{JSON}" for _, accepted, _ in paged.transport.streams + streamed.transport.streams
    )
    expected = {key: obj.to_dict() for key, obj in as_json.objects().items()}
    assert sorted(expected) == [f"{namespace}/{name}" for name in names]
    for read in (paged, streamed):
        assert {key: obj.to_dict() for key, obj in read.objects().items()} == expected
    client.patch("v1", "Pod", "p0", namespace, {"metadata": {"labels": {"new": "label"}}})
    client.create(pod("p9", namespace))
    for read in (paged, streamed, as_json):
        eventually(lambda read=read: f"{namespace}/p9" in read.objects())
        eventually(lambda read=read: read.objects()[f"{namespace}/p0"].labels.get("new") == "label")
    eventually(lambda: paged.media("watch"))
    assert paged.media("watch") == {PROTOBUF}
    expected = {key: obj.to_dict() for key, obj in as_json.objects().items()}
    for read in (paged, streamed):
        assert {key: obj.to_dict() for key, obj in read.objects().items()} == expected


@behaviour("scale/SC52")
@behaviour("scale/SC54")
def test_crds_are_protobuf_custom_resources_json_and_their_metadata_protobuf(
    kube_apiserver: KubeApiserver, reading: Any, namespace: str
) -> None:
    client = kube_apiserver.client
    definition = crd("encodings.example.com", "Encoded")
    client.create(definition)
    name = definition["metadata"]["name"]
    version = f"encodings.example.com/{definition['spec']['versions'][0]['name']}"
    try:
        client.resources.forget(version, "Encoded")
        obj = {"apiVersion": version, "kind": "Encoded", "metadata": {"name": "a", "labels": LABELS}, "spec": {}}
        if definition["spec"]["scope"] == "Namespaced":
            obj["metadata"]["namespace"] = namespace
        eventually(lambda: _created(client, obj))

        def read(media: str, *kind: Any, **options: Any) -> list[dict[str, Any]]:
            """Return the objects, read in pages with a watch and as a stream; both must have come in `media`."""
            paged = reading(*kind, watch_list=False, page_size=1, **options)
            streamed = reading(*kind, **options)
            eventually(lambda: paged.media("watch"))
            assert paged.media("list") == paged.media("watch") == streamed.media("streaming list") == {media}, kind
            return [paged.objects(), streamed.objects()]

        definitions = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        copies = [by_name[name] for by_name in read(PROTOBUF, *definitions) + read(JSON, *definitions, "json")]
        assert all(copy == copies[0] and copy.to_dict() == copies[0].to_dict() for copy in copies)
        whole, same = read(JSON, version, "Encoded")
        assert whole == same
        for objects in read(PROTOBUF, version, "Encoded", reads="metadata"):
            ((key, partial),) = objects.items()
            assert (partial.api_version, partial.kind, partial.partial) == (version, "Encoded", True)
            assert partial["metadata"] == whole[key]["metadata"]
    finally:
        client.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)


def _created(client: Client, obj: dict[str, Any]) -> bool:
    from ctrlhost.errors import ApiError

    try:
        client.create(obj)
    except ApiError:
        return False
    return True


@behaviour("scale/SC54")
def test_the_metadata_of_pods_comes_as_protobuf(kube_apiserver: KubeApiserver, reading: Any, namespace: str) -> None:
    client = kube_apiserver.client
    client.create(pod("p", namespace))
    read = reading("v1", "Pod", reads="metadata", watch_list=False, namespaces=[namespace])
    eventually(lambda: read.media("watch"))
    client.create(pod("q", namespace))
    eventually(lambda: len(read.objects()) == 2)
    assert read.media("list") == read.media("watch") == {PROTOBUF}
    for obj in read.objects().values():
        assert (obj.api_version, obj.kind, obj.partial) == ("v1", "Pod", True)
        whole = client.get("v1", "Pod", obj.name, namespace)["metadata"]
        whole.pop("managedFields")
        assert obj["metadata"] == whole
