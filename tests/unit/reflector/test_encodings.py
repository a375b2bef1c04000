"""Protobuf and JSON in one informer: what is asked for, and what the answer says."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest

from ctrlhost.client import Client, HttpRequest, Stream
from ctrlhost.errors import DecodeError
from ctrlhost.informers import Encodings, InformerFactory, ReflectorOptions
from ctrlhost.transport.wrapped import WrappedTransport
from tests.support import protobuf, stub_api_server
from tests.support.informer_rig import PODS, QUICK, Rig, synced
from tests.support.stub_api_server import Answer, Body, Computed, Failure, Json, ReceivedRequest, serve
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
JSON = "application/json"
BOTH = f"{protobuf.MEDIA},{JSON}"


class Frames(stub_api_server.Frames):
    """A watch stream of protobuf, or of another content type."""

    def __init__(self, *frames: bytes, media: str = protobuf.WATCH_MEDIA) -> None:
        super().__init__()
        self._media = media
        for frame in frames:
            self.send_bytes(frame)

    def send(self, handler: Any) -> None:
        begin = handler.start

        def start(status: int, headers: dict[str, str]) -> None:
            begin(status, {**headers, "Content-Type": self._media})

        handler.start = start
        try:
            super().send(handler)
        finally:
            del handler.start


class Text(Body):
    """A failure that is not a `Status`."""

    def send(self, handler: Any) -> None:
        handler.whole(self.status, self.body, {"Content-Type": self.content_type, "Retry-After": "1"})


def page(body: bytes, media: str = protobuf.MEDIA) -> Body:
    return Body(body, content_type=media)


def pods(*names: str, version: int = 1) -> Body:
    return page(protobuf.pod_list(version, *(protobuf.pod(name, version) for name in names)))


def accepts(requests: list[ReceivedRequest]) -> list[str]:
    return [request.headers["accept"] for request in requests]


def metrics(rig: Rig) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("encoding", "")): sample.value
        for family in rig.factory.metrics.collect()
        for sample in family.samples
    }


@behaviour("scale/SC56")
@pytest.mark.parametrize(
    ("list_media", "watch_media"),
    [
        (protobuf.MEDIA, protobuf.WATCH_MEDIA),
        ("Application/VND.Kubernetes.Protobuf ; q=1", " application/vnd.kubernetes.protobuf;a=b ; stream=watch"),
    ],
)
def test_a_list_and_a_watch_in_protobuf_whatever_the_spelling_of_their_type(rig, list_media, watch_media):
    body = protobuf.pod_list(1, protobuf.pod("a", 1, app="x"))
    watch = Frames(protobuf.event("ADDED", protobuf.pod("b", 2)), media=watch_media)
    rig.serve([page(body, list_media)], [watch]).synced()
    rig.holds(a=1, b=2)
    assert accepts(rig.lists + rig.watches) == [BOTH, BOTH]
    (pod,) = rig.pods.lister.list(label_selector="app=x")
    assert pod.to_dict() == {
        "apiVersion": "v1",
        "kind": "Pod",
        **stub_api_server.pod("a", 1, app="x"),
        "status": {},
    } | {"spec": {"containers": None, "nodeName": "n1"}}
    assert metrics(rig)["ctrlhost_informer_encoding", "protobuf"] == 1
    assert metrics(rig)["ctrlhost_informer_received_bytes_total", "protobuf"] > len(body)
    assert metrics(rig)["ctrlhost_informer_received_bytes_total", "json"] == 0


@behaviour("scale/SC57")
@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize(
    ("media", "named"),
    [
        ("text/html", "`text/html`"),
        ("application/yaml", "`application/yaml`"),
        ("", "no content type"),
        (f"{JSON};as=Table;v=v1;g=meta.k8s.io", "as=Table"),
    ],
)
def test_another_content_type_is_named_and_shown(rig, media, named, watch):
    content = b"<html>log in</html>"
    if watch:
        rig.serve([pods("a")], [Frames(content, media=media), Frames()]).synced()
    else:
        rig.serve([page(content, media), pods("a")]).synced()
    eventually(lambda: rig.errors)
    error = rig.errors[0]
    assert isinstance(error, DecodeError)
    assert named in str(error)
    assert "`<html>log in</html>`" in str(error)
    rig.holds(a=1)


@behaviour("scale/SC57")
@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize("custom", [False, True])
def test_a_table_is_named_and_never_taken_for_objects(server, custom, watch):
    content = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[],"rows":[]}'
    group, kind, path = (
        ("g.example.com/v1", "Thing", "/apis/g.example.com/v1/things") if custom else ("v1", "Pod", PODS)
    )
    resource = {"name": "things", "kind": "Thing", "namespaced": True, "verbs": ["list", "watch"]}
    discovery = {"kind": "APIResourceList", "groupVersion": group, "resources": [resource]}
    server.on("GET", "/apis/g.example.com/v1", Json(discovery))
    item = {"apiVersion": group, "kind": kind, **stub_api_server.pod("a", 1)}
    listed = Json({**stub_api_server.pod_list(1, item), "kind": f"{kind}List", "apiVersion": group})
    if watch:
        frame = b'{"type":"ADDED","object":' + content + b"}\n"
        serve(server, path, [listed], [Frames(frame, media=JSON)])
    else:
        serve(server, path, [page(content, JSON), listed], [Frames(media=JSON)])
    errors: list[Exception] = []
    options = ReflectorOptions(watch_list=False, backoff=QUICK)
    with InformerFactory(
        Client(server.url), options=options, on_error=lambda _, error: errors.append(error)
    ) as factory:
        informer = factory.informer(group, kind)
        synced(factory)
        if watch:
            # As any object of another kind it is skipped.
            eventually(lambda: informer.parts[0].engine.stats()["skipped"] == 1)
            assert "Table of meta.k8s.io/v1" in informer.parts[0].engine.stats()["last_skip"]
        else:
            assert isinstance(errors[0], DecodeError)
            assert "expected a list, got a Table" in str(errors[0])
            assert '`{"kind":"Table",' in str(errors[0])
        assert [obj.name for obj in informer.lister.list()] == ["a"]


@behaviour("scale/SC136")
@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_a_truncated_list_is_named_with_its_place_and_listed_again(rig, encoding):
    bodies = {
        "json": (JSON, json.dumps(stub_api_server.pod_list(1, stub_api_server.pod("a", 1))).encode()),
        "protobuf": (protobuf.MEDIA, protobuf.pod_list(1, protobuf.pod("a", 1))),
    }
    media, body = bodies[encoding]
    cut = len(body) - 10
    rig.serve([page(body[:cut], media), page(body, media)]).synced()
    rig.holds(a=1)
    (error,) = rig.errors
    assert isinstance(error, DecodeError)
    assert "pods" in str(error)
    assert f"byte {cut}: unexpected end of the page" in str(error)
    assert len(rig.lists) == 2


@behaviour("scale/SC136")
@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_a_truncated_stream_is_named_with_its_place_and_opened_again(rig, encoding):
    frames = {
        "json": (
            f"{JSON};stream=watch",
            [stub_api_server.event("ADDED", stub_api_server.pod(name, 2)) for name in ("b", "c")],
        ),
        "protobuf": (protobuf.WATCH_MEDIA, [protobuf.event("ADDED", protobuf.pod(name, 2)) for name in ("b", "c")]),
    }
    media, (whole, cut) = frames[encoding]
    raw = [page if isinstance(page, bytes) else json.dumps(page).encode() + b"\n" for page in (whole, cut)]
    first = Frames(raw[0], raw[1][:20], media=media).end()
    rig.serve([pods("a")], [first, Frames(raw[1], media=media)]).synced()
    rig.holds(a=1, b=2, c=2)
    (error,) = rig.errors
    assert isinstance(error, DecodeError)
    assert "pods" in str(error)
    assert f"byte {len(raw[0]) + 20}: unexpected end of the frame" in str(error)
    assert len(rig.lists) == 1
    # The watch goes on after what was complete.
    assert [watch.query["resourceVersion"] for watch in rig.watches] == ["1", "2"]


@behaviour("scale/SC58")
def test_every_answer_stands_for_itself(rig):
    later = Frames()
    first = page(protobuf.pod_list(5, protobuf.pod("a", 1), continue_="next"))
    second = Json(stub_api_server.pod_list(5, stub_api_server.pod("b", 2)))
    as_json = stub_api_server.Frames(stub_api_server.event("ADDED", stub_api_server.pod("c", 6))).end()
    rig.serve([first, second], [as_json, later]).synced()
    rig.holds(a=1, b=2, c=6)
    later.send_bytes(protobuf.event("MODIFIED", protobuf.pod("b", 7)))
    rig.holds(a=1, b=7, c=6)
    assert metrics(rig)["ctrlhost_informer_encoding", "protobuf"] == 1
    assert metrics(rig)["ctrlhost_informer_encoding", "json"] == 0
    received = [metrics(rig)["ctrlhost_informer_received_bytes_total", encoding] for encoding in ("json", "protobuf")]
    assert min(received) > 0


@behaviour("scale/SC59")
@pytest.mark.parametrize("code", [406, 415])
def test_json_is_asked_for_at_once_and_from_then_on_if_protobuf_is_refused(rig, code):
    watch = stub_api_server.Frames()
    rig.serve([Failure(code, "NotAcceptable"), Json(stub_api_server.pod_list(1, stub_api_server.pod("a", 1)))], [watch])
    rig.synced()
    rig.holds(a=1)
    eventually(lambda: rig.watches)
    assert accepts(rig.lists) == [BOTH, JSON]
    assert accepts(rig.watches) == [JSON]
    assert not rig.errors


@behaviour("scale/SC55")
def test_a_kind_that_is_not_known_is_asked_for_as_json(server):
    path = "/apis/apps/v9/deployments"
    resource = {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["list", "watch"]}
    server.on(
        "GET", "/apis/apps/v9", Json({"kind": "APIResourceList", "groupVersion": "apps/v9", "resources": [resource]})
    )
    item = {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"new": True}}
    listed = {"kind": "DeploymentList", "apiVersion": "apps/v9", "metadata": {"resourceVersion": "1"}, "items": [item]}
    serve(server, path, [Json(listed)], [stub_api_server.Frames()])
    rig = Rig(server)
    deployments = rig.factory.informer("apps/v9", "Deployment")
    try:
        deployments.start()
        eventually(lambda: deployments.has_synced)
        (deployment,) = deployments.lister.list()
        assert deployment["spec"] == {"new": True}
        (listing,) = (request for request in rig.lists if request.path == path)
        assert listing.headers["accept"] == JSON
    finally:
        rig.stop()


@behaviour("scale/SC54")
def test_metadata_comes_as_protobuf_and_names_the_kind_that_it_is_of(server, factory):
    meta = "as={};g=meta.k8s.io;v=v1"
    listed = page(protobuf.metadata_list(1, protobuf.metadata("a", 1, app="x")))
    later = protobuf.envelope(
        "meta.k8s.io/v1", "PartialObjectMetadata", protobuf.message((1, protobuf.metadata("b", 2)))
    )
    serve(server, PODS, [listed], [Frames(protobuf.frame("ADDED", later))])
    informer = factory.informer("v1", "Pod", reads="metadata")
    synced(factory)
    eventually(lambda: len(informer.lister.list()) == 2)
    for obj in informer.lister.list():
        assert (obj.api_version, obj.kind, obj.partial) == ("v1", "Pod", True)
        assert list(obj) == ["apiVersion", "kind", "metadata"]
        assert obj["metadata"]["uid"] == f"uid-{obj.name}"
    listing, watching = server.received(watch=False)[0], server.received(watch=True)[0]
    for request, kind in ((listing, "PartialObjectMetadataList"), (watching, "PartialObjectMetadata")):
        form = meta.format(kind)
        assert request.headers["accept"] == f"{protobuf.MEDIA};{form},{JSON};{form},{JSON}"


FAILURES = [
    (403, "Forbidden"),
    (404, "NotFound"),
    (410, "Expired"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (504, "Timeout"),
]


@behaviour("scale/SC60")
@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize(("code", "reason"), FAILURES)
def test_a_failure_is_the_same_in_every_encoding(server, code, reason, watch):
    cause = ("FieldValueInvalid", "bad", "spec.x")
    details = {"causes": [{"reason": cause[0], "message": cause[1], "field": cause[2]}], "retryAfterSeconds": 1}
    text = f"it is {reason}"
    encoded = [
        Failure(code, reason, text, details=details),
        Body(protobuf.status(code, reason, text, retry_after=1, causes=(cause,)), code, protobuf.MEDIA),
    ]

    def failed(answer: Answer) -> Any:
        # The first list may be repeated in silence, at another version.
        lists = [pods("a")] if watch else [answer, answer, pods("a")]
        serve(server, PODS, lists, [answer, Frames()] if watch else [Frames()])
        rig = Rig(server).start()
        try:
            eventually(lambda: rig.errors)
        finally:
            rig.stop()
        error: Any = rig.errors[0]
        return type(error), error.status, error.reason, error.message, error.causes, error.retry_after

    as_json, as_protobuf = (failed(form) for form in encoded)
    assert as_protobuf == as_json
    assert as_json[1:4] == (code, reason, text)
    assert as_json[5] == 1
    # What a filter or a proxy answers has no details; how long to wait is then said by a header.
    said = Text(text.encode(), code, "text/plain")
    kind, status, _, message, _, retry_after = failed(said)
    assert (kind, status, retry_after) == (*as_json[:2], 1)
    assert text in message


@behaviour("scale/SC60")
@pytest.mark.parametrize(("code", "reason"), [(410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")])
def test_a_frame_of_a_failure_is_the_same_in_every_encoding(rig_with, server, code, reason):
    def failed(frames: Answer) -> Any:
        rig = rig_with()
        rig.serve([pods("a")], [frames, Frames()]).synced()
        eventually(lambda: rig.errors)
        rig.stop()
        error: Any = rig.errors[0]
        return type(error), error.status, error.reason, error.message, error.retry_after

    details = {"retryAfterSeconds": 1}
    as_json = failed(stub_api_server.Frames(stub_api_server.error_event(code, reason, "why", details)))
    assert failed(Frames(protobuf.error_event(code, reason, "why", retry_after=1))) == as_json
    assert as_json[1:] == (code, reason, "why", 1)


@behaviour("scale/SC61")
def test_a_streaming_list_in_protobuf_ends_with_its_bookmark(rig_with):
    rig = rig_with(watch_list=True)
    stream = Frames(
        protobuf.event("ADDED", protobuf.pod("a", 1)),
        protobuf.event("ADDED", protobuf.pod("b", 2)),
    )
    rig.serve([pods("never")], [stream]).start()
    eventually(lambda: rig.status.listing == 2)
    assert not rig.pods.has_synced
    stream.send_bytes(protobuf.bookmark(9, initial_end=True))
    eventually(lambda: rig.pods.has_synced)
    assert rig.pods.last_resource_version == "9"
    stream.send_bytes(protobuf.bookmark(12))
    eventually(lambda: rig.pods.last_resource_version == "12")
    rig.holds(a=1, b=2)
    eventually(lambda: rig.status.bookmarks == 2)
    assert rig.lists == []


@behaviour("scale/SC66")
def test_an_empty_unknown_field_changes_nothing(rig):
    pod = protobuf.pod("a", 1, (999, ""), (998, 0))
    rig.serve([page(protobuf.pod_list(1, pod))], [Frames()]).synced()
    (obj,) = rig.pods.lister.list()
    assert not obj.partial
    assert metrics(rig)["ctrlhost_informer_unknown_fields_total", ""] == 0
    assert accepts(rig.lists) == [BOTH]


@behaviour("scale/SC66")
@pytest.mark.parametrize("in_watch", [False, True])
def test_a_kind_with_an_unknown_field_is_read_as_json(rig_with, server, caplog, in_watch):
    caplog.set_level(logging.WARNING)
    rig, requested, answer = rig_with(), threading.Event(), threading.Event()
    strange = protobuf.pod("a", 1, (999, "new"))
    listing = stub_api_server.pod_list(3, {**stub_api_server.pod("a", 1), "spec": {"future": "new"}})

    class Held(Json):
        def send(self, handler: Any) -> None:
            requested.set()
            assert answer.wait(30)
            super().send(handler)

    if in_watch:
        frames = Frames(protobuf.event("ADDED", strange), protobuf.event("MODIFIED", strange))
        rig.serve([page(protobuf.pod_list(1)), Held(listing)], [frames, stub_api_server.Frames()])
    else:
        rig.serve([page(protobuf.pod_list(1, strange)), Held(listing)], [stub_api_server.Frames()])
    rig.start()
    assert requested.wait(30)
    (pod,) = rig.pods.lister.list()
    assert (pod.name, pod.partial) == ("a", True)
    answer.set()
    eventually(lambda: not rig.pods.lister.list()[0].partial)
    assert rig.pods.lister.list()[0]["spec"] == {"future": "new"}
    assert accepts(rig.lists) == [BOTH, JSON]
    eventually(lambda: accepts(rig.watches)[-1:] == [JSON])
    assert metrics(rig)["ctrlhost_informer_unknown_fields_total", ""] in (1, 2)
    (line,) = (record.getMessage() for record in caplog.records if record.name == "ctrlhost.informers.encodings")
    assert "Pod (v1)" in line
    assert "field 999 of spec" in line


def test_a_setting_keeps_all_kinds_or_one_at_json(server):
    for encodings, accepted in (
        (Encodings("json"), JSON),
        (Encodings("auto", {"v1/Pod": "json"}), JSON),
        (Encodings("json", {"v1/Pod": "auto"}), BOTH),
        (Encodings("auto", {"apps/v1/Deployment": "json"}), BOTH),
    ):
        serve(server, PODS, [pods("a")], [Frames()])
        rig = Rig(server)
        options = ReflectorOptions(watch_list=False, backoff=QUICK, encodings=encodings)
        with InformerFactory(rig.client, options=options) as factory:
            factory.informer("v1", "Pod")
            synced(factory)
            assert server.received(watch=False)[-1].headers["accept"] == accepted
        rig.stop()


def test_a_transport_whose_streams_have_no_content_type_gets_json(server):
    class Bare(Stream):
        """A stream of somebody else's transport."""

        def __init__(self, inner: Stream) -> None:
            self.read, self.close = inner.read, inner.close

    class Foreign(WrappedTransport):
        def open(self, request: HttpRequest) -> Stream:
            return Bare(super().open(request))

    def answer(request: ReceivedRequest) -> Answer:
        if request.headers["accept"] == BOTH:
            return Frames() if request.query.get("watch") else pods("a")
        if request.query.get("watch"):
            return stub_api_server.Frames(stub_api_server.event("ADDED", stub_api_server.pod("b", 2)))
        return Json(stub_api_server.pod_list(1, stub_api_server.pod("a", 1)))

    server.on("GET", PODS, Computed(answer))
    rig = Rig(server)
    client = rig.client.derive(transport=Foreign(rig.client.transport), discovery=rig.client.transport)
    with InformerFactory(client, options=ReflectorOptions(watch_list=False, backoff=QUICK)) as factory:
        informer = factory.informer("v1", "Pod")
        synced(factory)
        eventually(lambda: {obj.name for obj in informer.lister.list()} == {"a", "b"})
    assert accepts(server.received(watch=False)) == [BOTH, JSON]
    assert accepts(server.received(watch=True)) == [JSON]
    rig.stop()
