from __future__ import annotations

import gzip
import json
import socket
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.responses import PlainTextResponse

from ctrlhost import ConfigError
from ctrlhost._core import Probes
from ctrlhost.controller.event_loop import PluginLoop
from ctrlhost.health import Check
from ctrlhost.server.addresses import parse_address
from ctrlhost.server.app import host_app
from ctrlhost.server.listener import Front, HttpServer


class FakeReports:
    """Nothing is asked of it here."""

    def queue_json(self, plugin, controller, query): ...

    causes_json = key_json = series_json = queue_json


class FakeHost:
    def __init__(self):
        self.checks_by_name = {}
        self.probes = Probes(30.0)
        self.scrapes, self.size = 0, 1
        self.plugin_pages = {}
        self.reports = FakeReports()

    def refresh(self, endpoint, plugin):
        return []

    def answer(self, endpoint, plugin):
        return self.checks_by_name.get(endpoint if plugin is None else f"{endpoint}/{plugin}")

    def begin_scrape(self, accept):
        return []

    def scraped(self, accept):
        self.scrapes += 1
        return f"accept {accept}".encode() * self.size, "text/plain; version=0.0.4"

    def begin_queues(self):
        return []

    def queues(self):
        return [{"controller": "naming/names"}]

    def pages(self):
        return self.plugin_pages


@pytest.fixture
def host():
    return FakeHost()


@pytest.fixture
def server(host):
    loop = PluginLoop("host")
    server = HttpServer(
        "127.0.0.1:0", host_app(host, loop), front=Front(None, host.probes, answers_probes=True, shows_metrics=True)
    )
    server.start()
    yield server
    assert server.stop(10)
    assert loop.stop(10)


def get_bytes(server, path, **headers):
    request = urllib.request.Request(f"http://{server.address}{path}", headers=headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read(), answer.headers


def get(server, path, **headers):
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"http://{server.address}{path}", headers=headers)
        ) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


def test_probes_answer_with_status_and_lines(server, host):
    assert get(server, "/readyz")[:2] == (503, "[-]startup failed\nreadyz check failed\n")
    host.probes.publish(False, "[-]plugin/naming failed: syncing\n", "[+]ping ok\n[-]plugin/naming failed\n", False)
    assert get(server, "/livez")[:2] == (200, "ok")
    assert get(server, "/livez?verbose")[:2] == (200, "[+]ping ok\nlivez check passed\n")
    assert get(server, "/readyz")[:2] == (503, "[-]plugin/naming failed: syncing\n")
    assert get(server, "/readyz?verbose")[:2] == (503, "[+]ping ok\n[-]plugin/naming failed\n")
    host.probes.publish(True, "ok", "[+]plugin/naming ok\nreadyz check passed\n", False)
    assert get(server, "/readyz?a&verbose=1")[:2] == (200, "[+]plugin/naming ok\nreadyz check passed\n")
    assert get(server, "/readyz")[:2] == (200, "ok")


def test_a_probe_waits_a_moment_for_what_has_just_changed(server, host):
    host.probes.publish(True, "ok", "[+]plugin/naming ok\n", False)
    host.probes.outdate()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(get, server, "/readyz")
        # Whether it comes before the request, during its wait or too late.
        host.probes.publish(False, "failed\n", "failed\n", False)
        assert asked.result(30)[0] in (200, 503)
    assert get(server, "/readyz")[0] == 503


def test_probes_of_one_plugin_answer_404_for_an_unknown_one(server, host):
    host.checks_by_name["healthz/naming"] = [Check("plugin/naming", passed=True)]
    assert get(server, "/healthz/naming")[:2] == (200, "ok")
    assert get(server, "/healthz/none")[:2] == (404, "no plugin none\n")
    assert get(server, "/readyz/none")[0] == 404


def test_metrics_are_served_in_the_requested_format(server):
    status, body, headers = get(server, "/metrics", Accept="application/openmetrics-text")
    assert (status, body) == (200, "accept application/openmetrics-text")
    assert headers["Content-Type"] == "text/plain; version=0.0.4"


@pytest.mark.parametrize("coding", ["gzip", "deflate, GZIP;q=0.5", "br;q=1.0, gzip ; q=1"])
def test_metrics_are_compressed_for_clients_that_accept_it(server, coding):
    body, headers = get_bytes(server, "/metrics", **{"Accept-Encoding": coding, "Accept": "text/plain"})
    assert headers["Content-Encoding"] == "gzip"
    assert headers["Vary"] == "Accept, Accept-Encoding"
    assert gzip.decompress(body) == b"accept text/plain"


@pytest.mark.parametrize("coding", ["", "identity", "gzip;q=0", "deflate, gzip; q=0.0", "x-gzip2"])
def test_metrics_are_not_compressed_for_others(server, coding):
    body, headers = get_bytes(server, "/metrics", **{"Accept-Encoding": coding, "Accept": "text/plain"})
    assert "Content-Encoding" not in headers
    assert body == b"accept text/plain"


def test_scrapes_within_a_second_share_a_large_exposition(server, host):
    for _ in range(3):
        assert "Age" not in get(server, "/metrics")[2]
    assert host.scrapes == 3
    host.size = 50_000
    fresh = get(server, "/metrics", Accept="text/plain")[1]
    answers = [get(server, "/metrics", Accept="text/plain") for _ in range(20)]
    assert {body for _, body, _ in answers} == {fresh}
    # Of 20 in a row, some come within a second.
    assert [headers for _, _, headers in answers if headers["Age"]]
    assert host.scrapes < 24
    # Another format is another exposition.
    assert "Age" not in get(server, "/metrics", Accept="text/html")[2]


def test_queues_are_shown(server):
    assert json.loads(get(server, "/debug/queues")[1]) == [{"controller": "naming/names"}]


def test_the_root_lists_the_endpoints(server, host):
    host.plugin_pages = {"hostname": {"/": None, "/status": None}}
    lines = get(server, "/")[1].split()
    assert {"/readyz", "/metrics", "/hostname/", "/hostname/status"} <= set(lines)


async def page_path(scope, receive, send):
    await PlainTextResponse(f"{scope['path']} below {scope['root_path']}")(scope, receive, send)


async def broken(scope, receive, send):
    raise RuntimeError("bug in a page")


def test_plugin_pages_are_below_the_plugin_name_and_the_longest_path_wins(server, host):
    host.plugin_pages = {"hostname": {"/": page_path}, "naming": {"/overlay": page_path, "/overlay/deep": broken}}
    assert get(server, "/hostname/hostnames")[:2] == (200, "/hostname/hostnames below /hostname")
    assert get(server, "/hostname")[:2] == (200, "/hostname/ below /hostname")
    assert get(server, "/naming/overlay/x")[:2] == (200, "/naming/overlay/x below /naming/overlay")
    assert get(server, "/naming/overlays")[0] == 404
    assert get(server, "/unknown/page")[0] == 404


def test_a_page_that_raises_fails_only_its_own_request(server, host):
    host.plugin_pages = {"naming": {"/": broken}}
    assert get(server, "/naming/")[0] == 500
    assert get(server, "/livez")[0] == 200


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        (":0", ("", 0)),
        ("[::1]:8080", ("::1", 8080)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_listen_addresses_are_parsed(address, expected):
    assert parse_address(address, "host.listen") == expected


@pytest.mark.parametrize("address", ["", "8080", "a:b", "127.0.0.1:70000", "::1:80", "127.0.0.1:", "127.0.0.1:-1"])
def test_an_invalid_address_is_refused_and_names_the_setting(address):
    with pytest.raises(ConfigError, match=r"host\.listen: invalid address"):
        parse_address(address, "host.listen")


def test_a_port_in_use_is_reported_before_serving():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"host.listen: port {port} is in use") as caught:
            HttpServer(f"127.0.0.1:{port}", page_path)
    assert "port 0" in str(caught.value.hint)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(ConfigError, match=r"cannot listen at 192\.0\.2\.1:8080"):
        HttpServer("192.0.2.1:8080", page_path)


def test_the_port_is_free_after_the_stop():
    server = HttpServer("127.0.0.1:0", page_path)
    server.start()
    assert get(server, "/livez")[0] == 200
    address = server.address
    assert server.stop(10)
    HttpServer(address, page_path).stop()
