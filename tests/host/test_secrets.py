"""What a host shows of tokens, keys and passwords: nothing."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.byte_servers import Tunnels
from tests.support.kubeconfigs import kubeconfig, written
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
        shown = "\n".join([*(body for _, body in pages), *map(json.dumps, host.lines), *host.output])
    basic = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    keys = [*key.splitlines()[1:-1], user["client-key-data"]]
    hidden = [TOKEN, PASSWORD, PASSWORD.replace("@", "%40"), basic, *keys]
    assert "127.0.0.1" in shown
    assert [one for one in hidden if one in shown] == []
