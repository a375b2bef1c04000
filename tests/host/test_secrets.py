"""What a host shows of tokens, keys and passwords: nothing."""

from __future__ import annotations

import base64
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost.client import Client
from tests.support.byte_servers import Tunnels
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.status_page import page_at
from tests.support.stub_api_server import Failure, Json, StubApiServer, pod_list, serve
from tests.support.tls_files import Authority

if TYPE_CHECKING:
    from tests.host.conftest import Distributions, StartHost

PLUGIN = """
import ctrlhost

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("d", reconcile, ctrlhost.For("v1", "Secret"))

def reconcile(ctx, request):
    raise RuntimeError(f"{ctx.client!r} {vars(ctx.client)!r} {vars(ctx.client.transport)!r}")
"""
TOKEN, PASSWORD = "s3cr3t-token", "s3cr3t-p@ss"
STATUS = ["/", "/status/plugins/p", "/status/controllers/p/s", "/status/keys/p/s?key=default/fails"]
PAGES = [
    *("/", "/metrics", "/debug/queues", "/nothing", "/p/"),
    *(f"/{probe}?verbose" for probe in ("livez", "readyz", "healthz", "readyz/p", "healthz/p")),
]


@pytest.mark.behaviour("scale/SC49")
@pytest.mark.parametrize("isolated", [False, True], ids=["shared", "isolated"])
def test_no_page_and_no_log_line_of_a_host_has_a_secret(
    tmp_path: Path, distributions: Distributions, start_host: StartHost, isolated: bool
) -> None:
    distributions.add("p", PLUGIN)
    authority = Authority(tmp_path / "tls")
    cert, key = authority.issue("me")
    with StubApiServer(tls=authority.server_context(ask=True)) as server, Tunnels(server.port) as proxy:
        secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "b", "uid": "c"}}
        listed = Json({**pod_list(1, secret), "kind": "SecretList"})
        serve(server, "/api/v1/secrets", [listed], [Failure(401, "Unauthorized")])
        data = {"client-certificate-data": cert, "client-key-data": key}
        user = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
        cluster = {
            "server": server.url,
            "certificate-authority-data": base64.b64encode(authority.pem.encode()).decode(),
            "proxy-url": f"http://me:{PASSWORD.replace('@', '%40')}@127.0.0.1:{proxy.port}",
        }
        config = written(tmp_path, kubeconfig(cluster, {"token": TOKEN, **user}))
        flags = [f"--kubeconfig={config}", "--set=host.log_level=debug", "--set=informers.encoding=json"]
        host = start_host(*flags, *(["--isolate=p"] if isolated else []), plugins="p", NO_PROXY="", no_proxy="")
        host.line("cannot watch Secret")
        host.wait_for_metric(1, "controller_runtime_reconcile_errors_total", controller="p/d")
        pages = [host.get(page) for page in PAGES]
        assert [status for status, _ in pages[:3]] == [200, 200, 200]
        text = "\n".join([*(body for _, body in pages), *map(json.dumps, host.lines), *host.output])
    basic = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    keys = [*key.splitlines()[1:-1], user["client-key-data"]]
    hidden = [TOKEN, PASSWORD, PASSWORD.replace("@", "%40"), basic, *keys]
    assert "127.0.0.1" in text
    assert [value for value in hidden if value in text] == []


#: Reads and writes Secrets, fails with them in its hands, and hangs with them in its variables.
KEEPER = """
import base64, threading
import ctrlhost

never = threading.Event()

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("s", reconcile, ctrlhost.For("v1", "Secret"), workers=2)
    plugin.add_controller("c", copied, ctrlhost.For("v1", "ConfigMap"),
        ctrlhost.Watches("v1", "Secret", map=lambda one: [("default", one.name)], indexes={"value": "data.token"}))

def reconcile(ctx, request):
    secret = ctx.lister("v1", "Secret").get(request.name, request.namespace)
    value = base64.b64decode(secret["data"]["token"]).decode()
    if request.name == "hangs":
        never.wait()
    ctx.client.patch("v1", "Secret", request.name, request.namespace, {"stringData": {"more": "more-" + value}})
    raise RuntimeError(f"{secret!r} {secret} {ctx!r} {request!r} {ctx.lister('v1', 'Secret')!r}")

def copied(ctx, request):
    secrets = ctx.lister("v1", "Secret")
    secrets.by_index("value", "none")
    list(secrets.list())
"""
VALUE = "h1dden-v4lue"


@pytest.mark.behaviour("operations/OP44")
def test_values_of_secrets_in_a_cache_are_shown_nowhere(
    distributions: Distributions, start_host: StartHost, tmp_path: Path
) -> None:
    distributions.add("p", KEEPER)
    with Sandbox(kubeconfig=tmp_path / "kubeconfig") as sandbox:
        client = Client.load(sandbox.kubeconfig)
        for name in ("fails", "hangs"):
            meta = {"name": name, "namespace": "default"}
            client.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"token": VALUE}})
            client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        flags = [f"--kubeconfig={sandbox.kubeconfig}", "--set=host.log_level=debug", "--set=host.drain_timeout=1s"]
        host = start_host(*flags, plugins="p")
        host.wait_for_metric(2, "controller_runtime_reconcile_errors_total", controller="p/s")
        host.eventually(lambda: json.loads(host.get("/debug/queues")[1]), "queues")
        host.signal(signal.SIGUSR1)
        host.line("in reconcile")
        listed = [line for line in host.get("/")[1].split() if line.startswith("/")]
        assert {"/metrics", "/readyz", "/debug/queues"} <= set(listed)
        pages = [host.get(path)[1] for path in dict.fromkeys([*listed, *PAGES])]
        shown_by_pages = [page_at(host, path) for path in STATUS]
        assert all(page.status == 200 for page in shown_by_pages)
        assert "default/fails" in shown_by_pages[0].text
        pages += [page.source for page in shown_by_pages]
        host.stop()
        text = "\n".join([*pages, *map(json.dumps, host.lines), *host.output])
        written_back = client.get("v1", "Secret", "fails", "default")["data"]["more"]
    assert base64.b64decode(written_back).decode() == f"more-{VALUE}"
    # The plugin did fail with them, and the page did show the keys.
    assert "Object(v1 Secret default/fails, rv='" in text
    encoded = [base64.b64encode(secret.encode()).decode().rstrip("=") for secret in (VALUE, f"more-{VALUE}")]
    assert [secret for secret in (VALUE, *encoded) if secret in text] == []


@pytest.mark.behaviour("operations/OP46")
@pytest.mark.parametrize(
    ("address", "warnings"),
    [("192.0.2.1", 1), ("127.0.0.1", 0), ("localhost", 0), ("127.9.9.9", 0), ("[::1]", 0)],
)
def test_a_token_over_plain_http_to_another_machine_gets_one_warning(
    tmp_path: Path, distributions: Distributions, start_host: StartHost, address: str, warnings: int
) -> None:
    distributions.add("p", PLUGIN)
    # Nothing answers there.
    config = written(tmp_path, kubeconfig({"server": f"http://{address}:1"}, {"token": TOKEN}))
    running = start_host(f"--kubeconfig={config}", "--set=client.connect_timeout=1s", plugins="p", NO_PROXY="*")
    running.line("Secret", "cannot")
    said = [line for line in running.lines if "plain http" in line["msg"]]
    assert len(said) == warnings
    for line in said:
        assert line["level"] == "warning"
        assert f"http://{address}:1" in line["msg"]
    assert TOKEN not in running.text
