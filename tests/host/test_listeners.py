"""The host's listeners: what each serves, to whom, and what it refuses."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ctrlhost.config.settings import HostSettings
from ctrlhost.host.host import Host
from ctrlhost.supervisor import run_directory
from ctrlhost.supervisor.loader import RESERVED_NAMES
from tests.host.conftest import StartHost, distributions, start_host
from tests.support.admin import send
from tests.support.host_process import LIMIT, HostProcess
from tests.support.other_user import NOBODY, needs_root, run_as_nobody
from tests.support.plugin_modules import plugin_of

__all__ = ["distributions", "start_host"]

behaviour = pytest.mark.behaviour

OWN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

PLUGIN = """
import asyncio

import ctrlhost

PAGES = {
    "/bare": [(b"content-type", b"text/html")],
    "/own": [(b"content-type", b"text/html"), (b"Content-Security-Policy", b"default-src 'self'"),
             (b"cache-control", b"max-age=60"), (b"Access-Control-Allow-Origin", b"*")],
    "/stream": [(b"content-type", b"text/event-stream")],
}


async def page(scope, receive, send):
    path = "/" + scope["path"].rpartition("/")[2]
    if path == "/fails":
        raise RuntimeError("on purpose")
    await send({"type": "http.response.start", "status": 200, "headers": PAGES[path]})
    while path == "/stream":
        await send({"type": "http.response.body", "body": b": here\\n\\n", "more_body": True})
        await asyncio.sleep(0.02)
    await send({"type": "http.response.body", "body": b"<p>page</p>"})


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_page("/", page)
"""


def ask(address: str, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of an answer; the address may be `unix:PATH`."""
    connection = http.client.HTTPConnection("localhost", timeout=LIMIT)
    if address.startswith("unix:"):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(address.removeprefix("unix:"))
    else:
        host, _, port = address.rpartition(":")
        connection.sock = socket.create_connection((host.strip("[]"), int(port)), LIMIT)
    with contextlib.closing(connection):
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()


def serving(host: HostProcess, what: str) -> str:
    """Return the address of a listener of its own, on loopback."""
    message: str = host.line(f"serving {what} on http://")["msg"]
    return f"127.0.0.1:{message.rpartition(':')[2]}"


@pytest.fixture
def runtime() -> Iterator[Path]:
    """An empty XDG_RUNTIME_DIR; paths of pytest can be longer than the address of a socket."""
    with TemporaryDirectory(prefix="run-") as folder:
        yield Path(folder)


@pytest.fixture
def pages(start_host: StartHost, distributions, runtime: Path) -> HostProcess:
    """A host with a plugin that has pages."""
    distributions.add("shown", PLUGIN)
    host = start_host(
        "--sandbox", "--set=host.allowed_hosts=status.example", plugins="shown", XDG_RUNTIME_DIR=str(runtime)
    )
    host.line("plugin shown running")
    return host


def listeners(pid: int) -> set[str]:
    """Return the addresses, in hexadecimal, at which a process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(str(descriptor.readlink()))
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                addresses.add(fields[1])
    return addresses


@behaviour("operations/OP11")
def test_without_settings_there_is_one_port_on_loopback(start_host: StartHost, distributions) -> None:
    distributions.add("shown", PLUGIN)
    settings = HostSettings()
    assert (settings.listen, settings.listen_probes, settings.listen_metrics) == ("127.0.0.1:8484", None, None)
    # The default port may be in use on this machine.
    host = start_host("--sandbox", plugins="shown")
    host.line("plugin shown running")
    sandbox = {re.search(r":(\d+)$", line).group(1) for line in Path(host.kubeconfig).read_text().splitlines()
               if "server:" in line}  # fmt: skip
    own = {address for address in listeners(host.pid) if str(int(address.rpartition(":")[2], 16)) not in sandbox}
    assert len(own) == 1
    assert own == {f"0100007F:{int(host.address.rpartition(':')[2]):04X}"}
    for path in ("/livez", "/readyz", "/healthz", "/metrics", "/", "/shown/bare"):
        assert ask(host.address, path)[0] == 200


@behaviour("operations/OP10")
def test_probes_and_metrics_on_ports_of_their_own(start_host: StartHost, distributions) -> None:
    distributions.add("shown", PLUGIN)
    own = ["--set=host.listen_probes=127.0.0.1:0", "--set=host.listen_metrics=127.0.0.1:0"]
    host = start_host("--sandbox", *own, plugins="shown")
    host.line("plugin shown running")
    probes, metrics = serving(host, "probes"), serving(host, "metrics")
    for path in ("/livez", "/readyz", "/healthz"):
        assert ask(probes, path)[0] == 200
        assert ask(metrics, path)[0] == 404
        assert ask(host.address, path)[0] == 404
    for path in ("/", "/metrics", "/debug/stacks", "/debug/queues", "/api/v1/status", "/shown/bare"):
        assert ask(probes, path)[0] == 404
    assert ask(metrics, "/metrics")[0] == 200
    assert ask(metrics)[0] == 404
    assert ask(host.address, "/metrics")[0] == 404
    assert ask(host.address, "/shown/bare")[0] == 200
    paths = ask(host.address)[2].split()
    assert "/metrics" not in paths
    assert "/livez" not in paths
    # Probes are for everybody who reaches them, by any name.
    assert ask(probes, "/livez", Host="evil.example")[0] == 200
    assert ask(metrics, "/metrics", Host="evil.example")[0] == 421
    exposition = ask(metrics, "/metrics")[2]
    for line in (
        'ctrlhost_http_requests_total{code="404",listener="probes"} 6.0',
        'ctrlhost_http_requests_total{code="421",listener="metrics"} 1.0',
        'ctrlhost_http_connections_rejected_total{listener="metrics",reason="host"} 1.0',
        'ctrlhost_http_connections_rejected_total{listener="status",reason="emfile"} 0.0',
    ):
        assert line in exposition


def test_an_empty_address_is_not_served(start_host: StartHost, distributions) -> None:
    distributions.add("shown", PLUGIN)
    host = start_host("--sandbox", "--set=host.listen_probes=", "--set=host.listen_metrics=", plugins="shown")
    host.line("plugin shown running")
    assert ask(host.address, "/livez")[0] == 404
    assert ask(host.address, "/metrics")[0] == 404
    assert ask(host.address)[0] == 200


@behaviour("operations/OP16")
@behaviour("operations/OP24")
def test_a_port_alone_is_both_versions_and_warns(start_host: StartHost, distributions) -> None:
    distributions.add("shown", PLUGIN)
    host = start_host("--sandbox", "--listen=:0", plugins="shown")
    host.line("plugin shown running")
    port = host.address.rpartition(":")[2]
    assert ask(f"127.0.0.1:{port}", "/readyz")[0] == 200
    assert ask(f"[::1]:{port}", "/readyz")[0] == 200
    (warning,) = [line for line in host.lines if "without authentication" in line["msg"]]
    assert warning["level"] == "warning"
    assert warning["msg"] == (
        f"everybody who reaches [::]:{port} may read without authentication: status, errors, queues and pages of "
        "plugins, metrics"
    )


def test_hostname_listens_on_loopback_only(start_host: StartHost, distributions) -> None:
    source = Path(__file__).parents[2] / "plugins/hostname/src"
    host = start_host(
        "--sandbox",
        # The default port may be in use on this machine.
        "--set=plugins.hostname.rest-port=0",
        plugins="hostname",
        PYTHONPATH=f"{distributions.folder}:{source}",
    )
    host.line("plugin hostname listens on http://127.0.0.1:")
    host.line("listening on http://127.0.0.1:")
    addresses = listeners(host.pid)
    assert len(addresses) == 3
    assert all(address.startswith("0100007F:") for address in addresses)


@behaviour("operations/OP24")
def test_a_status_listener_on_all_addresses_runs_and_warns_once(start_host: StartHost, distributions) -> None:
    distributions.add("shown", PLUGIN)
    host = start_host("--sandbox", "--listen=0.0.0.0:0", plugins="shown")
    host.line("plugin shown running")
    assert ask(f"127.0.0.1:{host.address.rpartition(':')[2]}")[0] == 200
    (warning,) = [line for line in host.lines if "without authentication: status, errors" in line["msg"]]
    assert warning["level"] == "warning"


@behaviour("operations/OP18")
def test_unknown_host_names_are_refused(pages: HostProcess) -> None:
    port = pages.address.rpartition(":")[2]
    # The kubelet closes its connections, which takes another way to the probes.
    for path, more in [
        *((path, {}) for path in ("/", "/livez", "/metrics", "/debug/queues", "/shown/own", "/api/v1/status", "/none")),
        ("/livez", {"Connection": "close"}),
        ("/readyz?verbose", {"Connection": "close"}),
    ]:
        status, _, body = ask(pages.address, path, Host="evil.example", **more)
        assert status == 421
        assert "shown" not in body
        assert "host.allowed_hosts" in body
    for name in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "10.244.0.7:8484"):
        assert ask(pages.address, Host=name)[0] == 200
    assert ask(pages.address, Host=f"Status.example:{port}")[0] == 200
    for name in ("status.example.evil", "[evil.example]", "127.0.0.1.evil.example", "localhost:x", "1:2:3"):
        assert ask(pages.address, Host=name)[0] == 421
    assert (pages.metric("ctrlhost_http_connections_rejected_total", listener="status", reason="host") or 0) == 14


@behaviour("operations/OP19")
def test_other_sites_get_nothing(pages: HostProcess) -> None:
    status, headers, body = ask(pages.address, "/api/v1/status", Sec_Fetch_Site="cross-site")
    assert status == 403
    assert json.loads(body)["error"]
    for site in ("same-origin", "none"):
        assert ask(pages.address, Sec_Fetch_Site=site)[0] == 200
    answers = [headers]
    for path in ("/", "/api/v1/status", "/metrics", "/livez", "/shown/own", "/none"):
        answers.append(ask(pages.address, path, Origin="http://evil")[1])
        answers.append(
            ask(pages.address, path, "OPTIONS", Origin="http://evil", Access_Control_Request_Method="GET")[1]
        )
    assert not [name for answer in answers for name in answer if name.startswith("access-control-")]


@behaviour("operations/OP20")
@behaviour("faster/FA18")
def test_every_answer_has_the_headers(pages: HostProcess) -> None:
    requests: list[tuple[str, dict[str, str]]] = [
        *((path, {}) for path in ("/", "/livez", "/readyz", "/healthz?verbose", "/metrics", "/debug/queues")),
        *((path, {"Accept": "text/html"}) for path in ("/", "/status/plugins/shown", "/status/none")),
        *((path, {}) for path in ("/assets/none", "/api/none", "/admin/v1/pause")),
        ("/livez", {"Connection": "close"}),
        ("/readyz?verbose", {"Connection": "close"}),
        *((path, {}) for path in ("/none", "/healthz/none", "/shown/bare", "/shown/fails", "/shown")),
        ("/", {"Host": "evil.example"}),
        ("/", {"Sec-Fetch-Site": "cross-site"}),
        ("/", {"Content-Length": "3"}),
        ("/", {"A": "a" * (17 << 10)}),
    ]
    statuses = set()
    for path, more in requests:
        status, headers, _ = ask(pages.address, path, **more)
        statuses.add(status)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
        assert headers["content-security-policy"] == (
            PAGE_POLICY if path in ("/shown/bare", "/shown/fails") else OWN_POLICY
        ), path
    assert statuses == {200, 307, 403, 404, 413, 421, 431, 500}
    with socket.create_connection(("127.0.0.1", int(pages.address.rpartition(":")[2])), LIMIT) as client:
        client.sendall(b"no request\r\n\r\n")
        malformed = client.recv(1 << 16).lower()
    assert malformed.startswith(b"http/1.1 400 ")
    assert b"x-content-type-options: nosniff" in malformed
    assert b"server:" not in malformed


@behaviour("operations/OP21")
def test_pages_of_plugins_have_a_policy(pages: HostProcess) -> None:
    _, bare, _ = ask(pages.address, "/shown/bare")
    assert bare["content-security-policy"] == PAGE_POLICY
    assert bare["x-content-type-options"] == "nosniff"
    _, own, body = ask(pages.address, "/shown/own")
    assert body == "<p>page</p>"
    assert own["content-security-policy"] == "default-src 'self'"
    assert own["x-content-type-options"] == "nosniff"
    assert own["cache-control"] == "max-age=60"


@behaviour("operations/OP22")
def test_a_plugin_with_a_reserved_name_fails_alone(start_host: StartHost, distributions) -> None:
    distributions.add("shown", PLUGIN)
    distributions.add("status", PLUGIN)
    host = start_host("--sandbox", plugins="status,shown")
    host.line("plugin status failed", "invalid plugin name `status`: the host reserves it")
    host.line("plugin shown running")
    assert ask(host.address, "/shown/bare")[0] == 200


def test_all_first_segments_of_the_host_are_reserved() -> None:
    assert {"admin", "api", "assets", "debug", "healthz", "livez", "metrics", "readyz", "status"} <= RESERVED_NAMES


@behaviour("operations/OP26")
def test_streams_and_silent_connections_do_not_hold_up_the_end(pages: HostProcess) -> None:
    host, port = pages.address.split(":")
    with contextlib.ExitStack() as clients:

        def connect(sends: bytes) -> socket.socket:
            client = clients.enter_context(socket.create_connection((host, int(port)), LIMIT))
            client.sendall(sends)
            return client

        streams = [connect(b"GET /shown/stream HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(5)]
        assert all(b"text/event-stream" in stream.recv(1 << 12) for stream in streams)
        silent = [connect(sends) for sends in (b"", b"GET / HTTP/1.1\r\n") for _ in range(20)]
        assert pages.stop() == 0
        for stream in (*streams, *silent):
            with contextlib.suppress(ConnectionError):
                while stream.recv(1 << 16):
                    pass
    assert not [line for line in pages.lines if line["level"] in ("error", "warning")]


def local_socket(host: HostProcess) -> Path:
    message: str = host.line("local socket at ")["msg"]
    return Path(message.removeprefix("local socket at "))


@behaviour("operations/OP36")
def test_without_admin_the_socket_serves_status_only(start_host: StartHost, distributions, runtime: Path) -> None:
    distributions.add("shown", PLUGIN)
    own = ["--set=host.listen_probes=127.0.0.1:0", "--set=host.listen_metrics=127.0.0.1:0"]
    host = start_host("--sandbox", *own, plugins="shown", XDG_RUNTIME_DIR=str(runtime))
    host.line("plugin shown running")
    at = f"unix:{local_socket(host)}"
    for address in (host.address, serving(host, "probes"), serving(host, "metrics"), at):
        assert ask(address, "/admin/v1/pause", "POST")[0] == 404
        assert ask(address, "/admin/v1/pause", "POST", content_length="0")[0] == 404
    status, answer = send(local_socket(host), "pause", b'{"plugin": "shown"}')
    assert (status, answer["error"], answer["off"]) == (404, "the admin API is off", True)
    assert "`--admin`" in answer["hint"]
    line = host.line("admin: pause shown by uid ")
    assert line["msg"].endswith(f" pid {os.getpid()}: 404 the admin API is off")
    assert ask(at)[:3:2] == ask(host.address)[:3:2]
    assert json.loads(ask(at, "/debug/queues")[2]) == []
    assert ask(at, "/shown/bare")[2] == "<p>page</p>"
    assert ask(at, "/metrics")[0] == 404


@behaviour("operations/OP37")
def test_the_private_directory_and_its_socket(pages: HostProcess, runtime: Path) -> None:
    path = local_socket(pages)
    assert path == runtime / "ctrlhost" / f"{pages.pid}.sock"
    directory, status = path.parent.stat(), path.stat()
    assert stat.S_IMODE(directory.st_mode) == 0o700
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert stat.S_ISSOCK(status.st_mode)
    assert (directory.st_uid, status.st_uid) == (os.geteuid(), os.geteuid())
    assert pages.stop() == 0
    assert list(runtime.iterdir()) == []


@behaviour("operations/OP37")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("link", "is a symbolic link"),
        ("open", "is writable by other users: its mode is 0777"),
        pytest.param("foreign", f"belongs to the user {NOBODY}, not to 0", marks=needs_root),
    ],
)
def test_an_unsafe_private_directory_is_refused(ctrlhost, distributions, runtime: Path, wrong: str, said: str) -> None:
    distributions.add("shown", PLUGIN)
    directory = runtime / "ctrlhost"
    if wrong == "link":
        directory.symlink_to(distributions.folder)
    else:
        directory.mkdir(mode=0o700)
        if wrong == "open":
            directory.chmod(0o777)
        else:
            os.chown(directory, NOBODY, NOBODY)
    ran = ctrlhost("run", "--sandbox", "--plugins=shown", "--listen=127.0.0.1:0", XDG_RUNTIME_DIR=str(runtime))
    assert ran.returncode == 2
    error = next(line for line in ran.stderr.splitlines() if line.startswith("error: "))
    assert error == f"error: {directory} {said}"


@behaviour("operations/OP37")
def test_without_any_private_directory_there_is_one_warning(
    sandbox, monkeypatch, caplog: pytest.LogCaptureFixture, runtime: Path
) -> None:
    # Not even root can make a directory below a file.
    blocked = runtime / "file"
    blocked.touch()
    monkeypatch.setattr(run_directory, "SYSTEM_DIRECTORY", blocked / "system")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(blocked / "runtime"))
    monkeypatch.setenv("TMPDIR", str(blocked / "temporary"))
    settings = HostSettings(kubeconfig=str(sandbox.kubeconfig), listen="127.0.0.1:0")
    host = Host(settings, [plugin_of(lambda plugin: None, "bare")], local_socket=True)
    host.start()
    assert ask(host.address or "", "/livez")[0] == 200
    assert host.stop()
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warning.message.startswith("no local socket, so commands cannot attach to this host: no private directory")


@behaviour("operations/OP38")
@needs_root
def test_another_user_is_refused_at_a_widened_socket(pages: HostProcess, runtime: Path) -> None:
    path = local_socket(pages)
    runtime.chmod(0o755)
    path.parent.chmod(0o755)
    path.chmod(0o666)
    connect = """
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
with contextlib.suppress(BrokenPipeError):
    # The host may have closed before.
    client.sendall(b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
print(b"".join(iter(lambda: client.recv(1000), b"")).decode())
"""
    said = run_as_nobody(connect, str(path), imports="import contextlib, socket, sys")
    assert said.startswith("HTTP/1.1 403 ")
    assert "shown" not in said
    assert pages.line(f"refused a connection of the user {NOBODY} to ")["level"] == "warning"
    assert ask(f"unix:{path}")[0] == 200


@behaviour("operations/OP39")
def test_a_second_host_removes_the_socket_of_a_killed_one(start_host: StartHost, distributions, runtime: Path) -> None:
    distributions.add("shown", PLUGIN)

    def started() -> HostProcess:
        host = start_host("--sandbox", plugins="shown", XDG_RUNTIME_DIR=str(runtime))
        host.line("plugin shown running")
        return host

    killed = started()
    stale = local_socket(killed)
    killed.signal(signal.SIGKILL)
    killed.wait()
    assert stale.exists()
    hosts = [started(), started()]
    assert not stale.exists()
    paths = [local_socket(host) for host in hosts]
    assert sorted((runtime / "ctrlhost").glob("*.sock")) == sorted(paths)
    for host, path in zip(hosts, paths, strict=True):
        assert path.name == f"{host.pid}.sock"
        assert ask(f"unix:{path}", "/shown/bare")[0] == 200


def test_the_probes_answer_while_status_is_asked_by_many(pages: HostProcess) -> None:
    failed: list[Any] = []

    def ask_often() -> None:
        for _ in range(20):
            failed.extend(status for status in [ask(pages.address, "/metrics")[0]] if status != 200)

    threads = [threading.Thread(target=ask_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert ask(pages.address, "/livez")[0] == 200
    assert failed == []
