"""What the endpoints of a host show of a plugin in a process of its own: metrics, health, queues and pages."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as text_metrics

import ctrlhost
from tests.host.conftest import Distributions, StartHost
from tests.host.isolation.host_with_pages import BAD, GOOD, Hosts, ask, lines, names, queues, seen
from tests.support.host_process import LIMIT, HostProcess
from tests.support.other_user import needs_root, run_as_nobody
from tests.support.plugin_modules import config_map

behaviour = pytest.mark.behaviour

Series = tuple[str, frozenset[tuple[str, str]]]
#: About the process of an isolated plugin.
OF_ISOLATION = {"ctrlhost_child_rss_bytes", "ctrlhost_plugin_cpu_seconds_total", "ctrlhost_feed_slow_closed_total"}


@pytest.fixture
def hosts(distributions: Distributions, start_host: StartHost) -> Iterator[Hosts]:
    distributions.add("bad", BAD)
    distributions.add("good", GOOD)
    # The path of a socket must be short.
    with TemporaryDirectory() as runtime:
        yield Hosts(start_host, Path(runtime))


@pytest.fixture
def stopped() -> Iterator[Callable[[int], None]]:
    """Return a function that stops a process until the test ends, unless the process ends before."""
    pids: list[int] = []

    def stop(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        pids.append(pid)

    yield stop
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def series(text: str, parse: Callable[[str], Any] = text_metrics) -> dict[Series, float]:
    """Return the values of all series of an exposition, which has each of them once."""
    samples = [sample for family in parse(text) for sample in family.samples]
    values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(values) == len(samples)
    return values


def about_bad(host: HostProcess, accept: str) -> set[Series]:
    """Return the series of `bad`, without the label `child`, and without what depends on times."""
    parse = open_metrics if "openmetrics" in accept else text_metrics
    text = ask(host, "/metrics", Accept=accept)[2].decode()
    own_series = set()
    for name, labels in series(text, parse):
        plain = frozenset(label for label in labels if label[0] != "child")
        own = name.startswith(("made", "took", "size", "ctrlhost_handler"))
        if own or any(value == "bad" or value.startswith("bad/") for _, value in plain):
            own_series.add((name, plain))
    return {item for item in own_series if item[0] not in OF_ISOLATION}


def has_read(host: HostProcess) -> bool:
    success = host.metric("controller_runtime_reconcile_total", controller="bad/c", result="success")
    return bool(success) and (host.metric("rest_client_requests_total", code="200", method="GET") or 0) > 0


@behaviour("supervision/PI14")
def test_metrics_have_the_same_names_and_labels(hosts: Hosts) -> None:
    facts = {}
    for isolated in (False, True):
        host = hosts(isolated=isolated)
        client = ctrlhost.Client.load(host.kubeconfig)
        client.create({**config_map("s"), "kind": "Secret"})
        host.wait_for_metric(1, "ctrlhost_handler_calls_total", name="Secret.v1", use="map")
        host.wait_for_metric(1, "made_total")
        host.eventually(lambda host=host: has_read(host), "a request")
        for accept in ("text/plain", "application/openmetrics-text; version=1.0.0"):
            facts[isolated, accept] = about_bad(host, accept)
        if isolated:
            break
        host.stop()
    for accept in ("text/plain", "application/openmetrics-text; version=1.0.0"):
        assert facts[True, accept] == facts[False, accept]
    names = {name for name, _ in facts[True, "text/plain"]}
    assert {"made_total", "took_seconds_bucket", "size", "controller_runtime_reconcile_total"} <= names
    assert {"workqueue_depth", "ctrlhost_handler_calls_total", "ctrlhost_plugin_stuck_threads"} <= names
    values = series(host.get("/metrics")[1])
    assert values["made_total", frozenset({("kind", "a")})] == 2
    # What each process has for itself is told apart, whatever the host has at the moment.
    own = {name for name, labels in values if ("child", "bad") in labels}
    assert {"ctrlhost_informer_objects", "rest_client_requests_total", "ctrlhost_log_dropped_total"} <= own
    assert not any(name.startswith(("process_", "python_", "ctrlhost_build")) for name in own)
    assert sum(name == "process_resident_memory_bytes" for name, _ in values) == 1
    assert sum(name == "ctrlhost_build_info" for name, _ in values) == 1
    assert host.metric("ctrlhost_metrics_age_seconds", plugin="bad") is not None
    # Beside them is what the host knows of the process.
    pid = seen(host)["pid"]
    assert pid != host.pid
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    rss = host.metric("ctrlhost_child_rss_bytes", plugin="bad")
    assert rss is not None
    assert resident / 2 < rss < resident * 2
    assert host.metric("ctrlhost_child_rss_bytes", plugin="good") is None
    assert (host.metric("ctrlhost_plugin_cpu_seconds_total", plugin="bad") or 0) > 0
    assert host.metric("ctrlhost_feed_slow_closed_total", plugin="bad") == 0


@behaviour("supervision/PI14")
def test_pages_are_those_of_the_plugin(hosts: Hosts) -> None:
    answers: dict[bool, list[Any]] = {}
    for isolated in (False, True):
        host = hosts(isolated=isolated)
        responses = [
            ask(host, "/bad/look?a=b%20c&d", X_Given="1"),
            ask(host, "/bad/with%20space/%C3%A9", "HEAD"),
            ask(host, "/bad/pages/deep/x", "POST", b"y" * 3_000_000 + b"end of the body", Expect="100-continue"),
            ask(host, "/bad/pages/deep", "PUT", iter([b"one", b"two"]), Transfer_Encoding="chunked"),
            ask(host, "/bad/pages/none", "DELETE"),
            ask(host, "/bad", "GET"),
            ask(host, "/worse/look", "GET"),
        ]
        answers[isolated] = [(status, headers, told(body, host)) for status, headers, body in responses]
        if not isolated:
            host.stop()
    for actual, other in zip(answers[True], answers[False], strict=True):
        assert actual == other
    assert answers[True][0][1].count(("x-one", "1")) == answers[True][0][1].count(("x-one", "2")) == 1
    assert answers[True][0][2]["headers"].count("x-given: 1") == 1
    assert answers[True][0][2]["client"] == "127.0.0.1"
    # A client cannot pass itself off as another one.
    assert b'"127.0.0.1"' in ask(host, "/bad/look", X_Ctrlhost_Client="http 192.0.2.1 5")[2]
    assert (answers[True][2][2]["length"], answers[True][3][2]["length"]) == (3_000_015, 6)
    assert answers[True][5][0] == 307
    assert ("location", "/bad/") in answers[True][5][1]
    assert [status for status, *_ in answers[True]] == [201, 201, 201, 201, 404, 307, 404]
    assert seen(host)["pid"] != host.pid
    assert {"/bad/", "/bad/pages/deep"} <= set(host.get("/")[1].split())


def told(body: bytes, host: HostProcess) -> Any:
    """Return what a page said, but for what differs from host to host."""
    text = body.decode().replace(host.address, "HOST")
    document = json.loads(text) if text.startswith("{") else text
    return {key: value for key, value in document.items() if key != "pid"} if isinstance(document, dict) else document


@behaviour("supervision/PI14")
def test_answers_come_as_the_page_sends_them(hosts: Hosts) -> None:
    host = hosts(deadlines__page="2s")
    connection = http.client.HTTPConnection(host.address, timeout=LIMIT)
    connection.request("GET", "/bad/parts")
    answer = connection.getresponse()
    assert answer.read(6) == b"first "
    assert not seen(host)["released"]
    assert seen(host, "/bad/release")["released"]
    assert answer.read() == b"second"
    connection.close()
    # A page that fails in the middle cuts the connection.
    with pytest.raises(http.client.IncompleteRead):
        ask(host, "/bad/cut")
    # One that is silent gets the answer of the process, which counts it.
    assert ask(host, "/bad/silent")[::2] == (504, b"the page did not answer in time\n")
    host.wait_for_metric(1, "ctrlhost_entry_overruns_total", plugin="bad", entry="page")


@behaviour("supervision/PI14")
def test_a_page_is_cancelled_when_the_client_leaves(hosts: Hosts) -> None:
    host = hosts()
    connection = http.client.HTTPConnection(host.address, timeout=LIMIT)
    connection.request("GET", "/bad/endless")
    assert connection.getresponse().read(5000) == b"x" * 5000
    assert not seen(host)["released"]
    connection.close()
    host.eventually(lambda: seen(host)["released"], "end of the page")


@behaviour("supervision/PI14")
def test_health_is_that_of_the_plugin(hosts: Hosts) -> None:
    named = {}
    for isolated in (False, True):
        host = hosts(isolated=isolated, deadlines__probe="1s")
        # The checks are called when somebody asks, not with each heartbeat.
        assert seen(host)["calls"] == 0
        host.eventually(lambda host=host: lines(host, "/healthz").get("bad/peers") == "[+]bad/peers ok", "the check")
        calls = seen(host)["calls"]
        assert host.get("/healthz/bad") == (200, "ok")
        host.eventually(lambda host=host, calls=calls: seen(host)["calls"] > calls, "a call")
        assert seen(host)["calls"] == calls + 1
        named[isolated] = [names(host, path) for path in ("/healthz", "/readyz", "/healthz/bad", "/readyz/bad")]
        if not isolated:
            host.stop()
    assert named[True] == named[False]
    assert {"plugin/bad", "controller/bad/c", "bad/peers", "bad/fine"} <= named[True][0]
    assert "bad/peers" not in named[True][1]
    seen(host, "/bad/raises")
    failed = "[-]bad/peers failed: RuntimeError: no peers"
    host.eventually(lambda: lines(host, "/healthz")["bad/peers"] == failed, "failure")
    assert host.get("/healthz")[0] == 503
    assert host.get("/healthz/bad")[0] == 503
    assert host.get("/readyz")[0] == host.get("/readyz/bad")[0] == host.get("/healthz/good")[0] == 200
    seen(host, "/bad/passes")
    host.eventually(lambda: host.get("/healthz/bad") == (200, "ok"), "success")
    seen(host, "/bad/hangs")
    host.eventually(lambda: "[+]bad/peers ok: passed " in lines(host, "/healthz/bad")["bad/peers"], "an age")
    host.eventually(lambda: "failed: no answer for " in lines(host, "/healthz/bad")["bad/peers"], "an overrun")
    host.eventually(lambda: lines(host, "/healthz/bad")["bad/fine"] == "[+]bad/fine ok", "the other check")
    assert host.get("/healthz")[0] == 503
    assert host.get("/readyz")[0] == 200


@behaviour("supervision/PI14")
def test_the_lease_of_the_plugin_is_shown(hosts: Hosts) -> None:
    named, masters = {}, {}
    for isolated in (False, True):
        host = hosts(
            "--leader-elect", "--set=host.leader_elect_plugins=bad", isolated=isolated, heartbeat_timeout="300s"
        )
        line = "[+]leaderElection/ctrlhost-bad ok: leading"
        host.eventually(
            lambda host=host, line=line: line in lines(host, "/healthz").values(), "a line about the plugin's lease"
        )
        named[isolated] = [names(host, path) for path in ("/healthz", "/readyz", "/healthz/bad")]
        host.wait_for_metric(1, "leader_election_master_status", name="ctrlhost-bad")
        held = series(host.get("/metrics")[1]).items()
        masters[isolated] = {sample: value for sample, value in held if sample[0] == "leader_election_master_status"}
        if not isolated:
            host.stop()
    assert named[True] == named[False]
    assert masters[True] == masters[False]
    assert len(masters[True]) == 2


@behaviour("supervision/PI14")
def test_queues_are_shown(hosts: Hosts) -> None:
    host = hosts()
    client = ctrlhost.Client.load(host.kubeconfig)
    client.create(config_map("held", labels={"hang": ""}))
    host.eventually(lambda: queues(host)["bad/stuck"]["counts"]["processing"] == 1, "the key")
    by_queue = queues(host)
    assert set(by_queue) == {"good/all", "bad/c", "bad/stuck"}
    assert [set(facts) for facts in by_queue.values()] == [set(by_queue["good/all"])] * 3
    (key,) = by_queue["bad/stuck"]["processing"]
    assert key["key"][0] == "held"


@behaviour("supervision/PI15")
def test_a_process_that_hangs_has_last_values(hosts: Hosts, stopped: Callable[[int], None]) -> None:
    host = hosts(heartbeat_timeout="300s", deadlines__page="1s", deadlines__probe="1s", restart_delay="60s")
    host.wait_for_metric(2, "made_total")
    host.eventually(lambda: lines(host, "/healthz").get("bad/peers") == "[+]bad/peers ok", "the check")
    queues(host)
    pid = seen(host)["pid"]
    stopped(pid)
    age = host.eventually(lambda: host.metric("ctrlhost_metrics_age_seconds", plugin="bad"), "age")
    assert host.metric("made_total") == 2
    assert host.metric("controller_runtime_max_concurrent_reconciles", controller="bad/c") == 1
    host.eventually(lambda: host.metric("ctrlhost_metrics_age_seconds", plugin="good") == 0, "those of good")
    host.wait_for_metric(age + 1, "ctrlhost_metrics_age_seconds", plugin="bad")
    assert host.metric("made_total") == 2
    # So have the queues and the lines of the health report.
    by_queue = host.eventually(
        lambda: (by_queue := queues(host))["bad/c"].get("age") and by_queue, "queues with their age"
    )
    assert "age" not in by_queue["good/all"]
    host.eventually(lambda: lines(host, "/readyz")["controller/bad/c"].endswith(" s old"), "old lines")
    host.eventually(lambda: "failed: no answer for " in lines(host, "/healthz/bad")["bad/peers"], "no answer")
    assert host.get("/healthz")[0] == 503
    assert host.get("/livez")[0] == host.get("/healthz/good")[0] == 200
    assert ask(host, "/bad/look")[::2] == (504, b"the page did not answer in time\n")
    # The page of a dead process says when the next one is there.
    os.kill(pid, signal.SIGKILL)
    host.line("plugin bad failing")
    status, headers, body = ask(host, "/bad/look")
    assert (status, body) == (503, b"the process of the plugin is down\n")
    assert 1 <= int(dict(headers)["retry-after"]) <= 72
    assert ask(host, "/bad")[0] == 307
    # Nothing else is left of it, as of a plugin of the host that failed.
    assert host.metric("made_total") is None
    assert set(queues(host)) == {"good/all"}
    assert not {"bad/peers", "controller/bad/c"} & set(lines(host, "/healthz"))
    assert host.metric("ctrlhost_child_rss_bytes", plugin="bad") == 0
    assert (host.metric("ctrlhost_plugin_cpu_seconds_total", plugin="bad") or 0) > 0


def test_the_next_process_answers(hosts: Hosts) -> None:
    host = hosts(restart_delay="0.1s")
    host.wait_for_metric(2, "made_total")
    used = host.metric("ctrlhost_plugin_cpu_seconds_total", plugin="bad") or 0
    first, after, statuses = seen(host)["pid"], len(host.lines), list[int]()
    os.kill(first, signal.SIGKILL)
    # Until the next process answers, it is 503 each time.
    host.eventually(lambda: statuses.append(ask(host, "/bad/look")[0]) or statuses[-1] != 503, "the page")
    assert set(statuses) <= {201, 503}
    host.line("plugin bad running", after=after)
    assert seen(host)["pid"] != first
    host.wait_for_metric(2, "made_total")
    host.eventually(lambda: lines(host, "/healthz").get("bad/peers") == "[+]bad/peers ok", "the check")
    host.eventually(lambda: "bad/c" in queues(host), "the queues")
    host.eventually(lambda: host.metric("ctrlhost_metrics_age_seconds", plugin="bad") == 0, "current metrics")
    host.wait_for_metric(used, "ctrlhost_plugin_cpu_seconds_total", plugin="bad")


#: Prints what a connection to each socket comes to.
CONNECT = """
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
            client.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            print(client.recv(100)[9:12].decode() or "closed")
        except OSError as error:
            print(type(error).__name__)
"""


@behaviour("supervision/PI12")
@needs_root
def test_a_connection_of_another_user_is_refused(hosts: Hosts) -> None:
    host = hosts()
    private = hosts.directory(host) / "bad"
    sockets = sorted(private.glob("*.sock"))
    assert [socket.name for socket in sockets] == ["feed.sock", "pages.sock"]
    assert [stat.S_IMODE(socket.stat().st_mode) for socket in sockets] == [0o600, 0o600]
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    paths = [str(socket) for socket in sockets]
    imports = "import os, socket, sys"
    assert run_as_nobody(CONNECT, *paths, imports=imports).split() == ["PermissionError"] * 2
    # Also when the modes of the files would allow it.
    for path in sockets:
        path.chmod(0o666)
    for path in (private, *private.parents[:3]):
        path.chmod(0o711)
    results = run_as_nobody(CONNECT, *paths, imports=imports).split()
    assert set(results) <= {"403", "closed", "ConnectionResetError", "BrokenPipeError"}
    assert len(results) == 2
    # Nothing changes.
    assert seen(host)["pid"] != host.pid
    ctrlhost.Client.load(host.kubeconfig).create(config_map("later"))
    host.wait_for_metric(1, "controller_runtime_reconcile_total", controller="bad/c", result="success")
    assert host.metric("ctrlhost_plugin_state", plugin="bad", state="running") == 1
    assert host.metric("ctrlhost_plugin_restarts_total", plugin="bad") is None
    assert host.stop() == 0
