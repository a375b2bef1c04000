"""HTML in place of an answer, as a proxy or the login page of a network gives it."""

from __future__ import annotations

import pytest

from ctrlhost.errors import ApiError, DecodeError, TransportError
from tests.support.informer_rig import Rig
from tests.support.stub_api_server import Body, Frames, Json, StubApiServer, pod, pod_list
from tests.support.waiting import eventually

pytestmark = pytest.mark.behaviour("scale/SC147")

POD = "/api/v1/namespaces/default/pods/a"
JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
KIND = "HTML, as of a proxy or a login page"
PAGES = {
    "page": b"<html><head>\n<style>p {}</style></head>\n<body><p>Please log in</p></body></html>\n",
    "portal": b"\n <!DOCTYPE html>\n<html><body>\n<script>go()</script>Please log in</body></html>",
}


@pytest.fixture(params=[JSON, PROTOBUF, JSON + ";stream=watch", PROTOBUF + ";stream=watch", "text/html"])
def content_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> bytes:
    return PAGES[request.param]


def one_line(text: str) -> bool:
    return "\n" not in text and "<p>" not in text


@pytest.mark.parametrize("status", [200, 503])
def test_a_call_names_it_in_one_line(
    server: StubApiServer, rig: Rig, page: bytes, content_type: str, status: int
) -> None:
    server.on("POST", "/api/v1/namespaces/default/pods", Body(page, status, content_type))
    kind = TransportError if status == 200 else ApiError
    with pytest.raises(kind) as caught:
        rig.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}})
    text = str(caught.value)
    assert f" {KIND}" in text
    assert text.endswith("Please log in")
    assert one_line(text)


def first_error(rig: Rig) -> Exception:
    rig.synced()
    return rig.errors[0]


@pytest.mark.parametrize("status", [200, 503])
def test_a_list_names_it_in_one_line_and_goes_on(
    rig: Rig, page: bytes, content_type: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    good = Json(pod_list(3, pod("a", 1)))
    error = first_error(rig.serve([Body(page, status, content_type), good]))
    check(error, status, caplog)
    rig.holds(a=1)


@pytest.mark.parametrize("status", [200, 503])
def test_a_watch_names_it_in_one_line_and_goes_on(
    rig: Rig, page: bytes, content_type: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    good = Json(pod_list(3, pod("a", 1)))
    portal = Body(page, status, content_type)
    rig.serve([good], [portal, portal, Frames()]).start()
    rig.holds(a=1)
    eventually(lambda: rig.errors)
    check(rig.errors[0], status, caplog)


def check(error: Exception, status: int, caplog: pytest.LogCaptureFixture) -> None:
    text = str(error)
    assert isinstance(error, DecodeError if status == 200 else ApiError)
    assert KIND in text
    assert one_line(text.replace("<p>", ""))
    (line,) = {record.message for record in caplog.records if KIND in record.message}
    assert "\n" not in line
