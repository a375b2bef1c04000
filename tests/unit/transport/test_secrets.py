"""What is in no error, no log line, no `repr` and no metric: tokens, keys, and passwords of proxies."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from ctrlhost.client import Client
from ctrlhost.errors import ApiError, ConfigError, TransportError
from ctrlhost.kubeconfig.connection import from_url
from ctrlhost.kubeconfig.load import load_connection
from ctrlhost.transport.native import NativeTransport
from tests.support.byte_servers import Tunnels
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.stub_api_server import Failure, Raw, StubApiServer
from tests.support.tls_files import Authority

TOKEN, PASSWORD = "s3cr3t-token", "s3cr3t-pass"


@pytest.mark.behaviour("scale/SC49")
def test_no_secret_is_shown_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    authority = Authority(tmp_path)
    cert, key = authority.issue("me")

    def fails(connection: object, *, path: str = "/x") -> None:
        transport = NativeTransport(connection)  # type: ignore[arg-type]
        for call in (transport.request, lambda _, where: transport.stream(where)):
            try:
                texts.append(repr(call("GET", path)))
            except (TransportError, ApiError, ValueError) as error:
                cause: BaseException | None = error
                while cause is not None:
                    texts.extend((str(cause), repr(cause)))
                    cause = cause.__cause__ or cause.__context__
        registry = CollectorRegistry()
        registry.register(transport.metrics)
        texts.extend((generate_latest(registry).decode(), repr(transport), repr(transport.connections())))
        texts.extend(map(repr, vars(transport).values()))

    with StubApiServer() as server, Tunnels(1) as proxy:
        server.on("GET", "/x", Failure(401, "Unauthorized"))
        server.on("GET", "/cut", Raw(b"HTTP/1.1 200 OK\r\nContent-Le"))
        for path in ("/x", "/cut", "/none"):
            fails(from_url(server.url, TOKEN, None, True), path=path)
        fails(from_url(server.url.replace("http:", "https:"), TOKEN, authority.pem, True))
        fails(from_url("http://127.0.0.1:1", TOKEN, None, True))
        for scheme in ("http", "https", "socks5", "socks5h"):
            for address in (f"127.0.0.1:{proxy.port}", "127.0.0.1:1"):
                connection = from_url("https://127.0.0.1:1", TOKEN, authority.pem, True)
                connection.configuration.proxy = f"{scheme}://me:{PASSWORD}@{address}"
                connection.configuration.no_proxy = ""
                connection.certificate.replace(cert, key)
                fails(connection)
        with pytest.raises(ValueError, match=r"Authorization") as refused:
            NativeTransport(from_url(server.url, TOKEN + "\r\n", None, True)).request("GET", "/x")
        texts.append(str(refused.value))
    for user, cluster in (
        ({"token": TOKEN + "\nx"}, {}),
        ({"token": TOKEN}, {"proxy-url": f"ftp://me:{PASSWORD}@x"}),
        ({"username": "me", "password": PASSWORD}, {"server": f"http://me:{PASSWORD}@x"}),
    ):
        path = written(tmp_path, kubeconfig({"server": "https://x", **cluster}, user))
        with pytest.raises(ConfigError) as caught:
            load_connection(path)
        texts.append(str(caught.value))
    client = Client("http://127.0.0.1:1", token=TOKEN)
    texts.extend((repr(client), *map(repr, vars(client).values())))
    everything = "\n".join([*texts, caplog.text])
    secrets = [TOKEN, PASSWORD, *key.splitlines()[1:-1]]
    assert [secret for secret in secrets if secret in everything] == []
