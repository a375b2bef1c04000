"""Which servers are reached through a proxy."""

from __future__ import annotations

import pytest

from ctrlhost.client import Client
from ctrlhost.kubeconfig.load import in_cluster
from ctrlhost.kubeconfig.proxy import bypasses_proxy
from tests.support.byte_servers import Socks, Tunnels
from tests.support.kubeconfigs import kubeconfig, service_account, written
from tests.support.stub_api_server import Frames, Json, StubApiServer, pod
from tests.support.tls_files import Authority

behaviour = pytest.mark.behaviour
POD = "/api/v1/namespaces/default/pods/a"


@behaviour("scale/SC48")
@pytest.mark.parametrize(
    ("rules", "direct"),
    [
        ("127.0.0.1", True),
        ("127.0.0.0/8", True),
        ("*", True),
        ("other , , 127.0.0.1 ,", True),
        ("127.0.0.1:{port}", True),
        ("127.0.0.1:1", False),
        ("10.0.0.0/8, fd00::/8", False),
        (" , ", False),
        # The proxy's own host changes nothing.
        ("localhost", False),
    ],
)
def test_the_rules_are_compared_with_the_servers_address(
    tmp_path, monkeypatch: pytest.MonkeyPatch, server: StubApiServer, rules: str, direct: bool
) -> None:
    server.on("GET", POD, Json(pod("a", 1)))
    server.on("GET", server.url + POD, Json(pod("a", 1)))
    with Tunnels(server.port) as proxy:
        through = f"http://localhost:{proxy.port}"
        monkeypatch.setenv("no_proxy", rules.format(port=server.port))
        monkeypatch.setenv("NO_PROXY", rules.format(port=server.port))
        config = written(tmp_path, kubeconfig({"server": server.url, "proxy-url": through}))
        assert Client.load(config).get("v1", "Pod", "a")
        assert len(proxy.asked) == (not direct)


@behaviour("scale/SC48")
@pytest.mark.parametrize(
    ("url", "rules", "expected"),
    [
        ("https://api.example.com", ".example.com", True),
        ("https://api.example.com", "example.com", True),
        ("https://example.com", ".example.com", True),
        ("https://badexample.com", "example.com", False),
        ("https://api.example.com", "api.example.com:443", True),
        ("https://api.example.com:6443", "api.example.com:443", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]", "fd00::1", True),
    ],
)
def test_names_and_networks(url: str, rules: str, expected: bool) -> None:
    assert bypasses_proxy(url, rules) is expected


@behaviour("scale/SC48")
def test_the_pod_uses_the_proxy_of_its_environment(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, account = Authority(tmp_path / "tls"), service_account(tmp_path)
    (account / "ca.crt").write_text(authority.pem)
    with StubApiServer(tls=authority.server_context()) as server, Tunnels(server.port) as proxy:
        server.on("GET", "/api/v1/namespaces/mine/pods/a", Json(pod("a", 1)))
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "10.0.0.0/8")
        address = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
        connection = in_cluster(address, account)
        connection.check()
        assert Client._connected(connection).get("v1", "Pod", "a")
        assert proxy.asked == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]


@behaviour("scale/SC46")
@pytest.mark.parametrize(("scheme", "asked_for"), [("socks5", "127.0.0.1"), ("socks5h", "localhost")])
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_a_socks_proxy_gets_an_address_or_the_name(tmp_path, scheme: str, asked_for: str, secure: bool) -> None:
    authority = Authority(tmp_path / "tls")
    with StubApiServer(tls=authority.server_context() if secure else None) as server, Socks(server.port) as proxy:
        server.on("GET", POD, Json(pod("a", 1)))
        server.on("GET", "/api/v1/pods", Frames().end())
        cluster = {
            "server": server.url.replace("127.0.0.1", "localhost"),
            "proxy-url": f"{scheme}://me:p%40ss@127.0.0.1:{proxy.port}",
            "insecure-skip-tls-verify": secure,
        }
        client = Client.load(written(tmp_path, kubeconfig(cluster)))
        assert client.get("v1", "Pod", "a")["metadata"]["name"] == "a"
        client.transport.stream("/api/v1/pods").close()
        assert proxy.asked[0] == (f"{asked_for}:{server.port}", "me", "p@ss")
        assert set(proxy.asked) == {proxy.asked[0]}
