"""Nothing that a kubeconfig keeps secret is in an error, a `repr` or the log."""

from __future__ import annotations

import base64
import logging
import traceback

import pytest

from ctrlhost.client import Client
from ctrlhost.errors import ConfigError, TransportError
from ctrlhost.kubeconfig import exec_credentials
from ctrlhost.kubeconfig.connection import from_url
from ctrlhost.kubeconfig.load import load_connection
from tests.support.exec_program import EXEC
from tests.support.kubeconfigs import kubeconfig

TOKEN, PASSWORD = "s3cr3t-token", "s3cr3t-pass"
PROXY = f"http://me:{PASSWORD}@proxy.example:3128"


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def shown_of(value, depth=4):
    """Return the `repr` of a value and of all that it holds."""
    members = getattr(value, "__dict__", None) or {
        name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)
    }
    inner = [shown_of(member, depth - 1) for member in members.values()] if depth and not isinstance(value, str) else []
    # Plain texts are the values themselves, which only their holder must not show.
    own = [] if isinstance(value, str | bytes | tuple | list | dict) else [repr(value)]
    return "\n".join([*own, *inner])


@pytest.fixture
def key(authority):
    return authority.issue("me")[1]


@pytest.fixture
def hidden(key):
    """The secrets, in every form that a kubeconfig has them in."""
    lines = [line for line in key.splitlines() if not line.startswith("-----")]
    basic = encoded(f"me:{PASSWORD}")
    return [TOKEN, PASSWORD, encoded(TOKEN), encoded(PASSWORD), basic, encoded(key), *lines]


def check(text, hidden):
    assert [secret for secret in hidden if secret in text] == []


@pytest.mark.behaviour("operations/OP45")
def test_credentials_and_connections_show_no_secret(write, authority, key, hidden, caplog):
    caplog.set_level(logging.DEBUG)
    certificate, key_of_it = authority.issue("me")
    hidden += [line for line in key_of_it.splitlines() if not line.startswith("-----")]
    command = {"apiVersion": EXEC, "command": "/bin/false", "args": [TOKEN]}
    command["env"] = [{"name": "PASSWORD", "value": PASSWORD}]
    (write("", "token-file")).write_text(TOKEN)
    identity = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key_of_it)}
    users = [
        {"token": TOKEN, **identity},
        {"tokenFile": "token-file"},
        {"username": "me", "password": PASSWORD},
        {"exec": command},
    ]
    texts = []
    for user in users:
        cluster = {"server": "https://192.0.2.1", "proxy-url": PROXY}
        connection = load_connection(write(kubeconfig(cluster, user)))
        client = Client.load(write(kubeconfig(cluster, user)))
        texts += [shown_of(connection), repr(connection.proxy()), repr(connection.tls()), shown_of(client)]
        assert "proxy.example" in repr(connection.proxy())
    status = exec_credentials._Status(token=TOKEN, client_key_data=key_of_it)
    check("\n".join([*texts, repr(status), caplog.text]), hidden)


def bad(key):
    """Return kubeconfigs of which one value each is unusable; the others are secret."""
    server = {"server": "https://192.0.2.1"}
    broken = key.replace("MIG", "M!G")
    text = "apiVersion: v1\nusers:\n- name: u\n  user:\n    {}\n"
    return {
        "token with a newline": kubeconfig(server, {"token": f"{TOKEN}\nx"}),
        "token that is a list": kubeconfig(server, {"token": [TOKEN]}),
        "token file that is missing": kubeconfig(server, {"token": TOKEN, "tokenFile": "none"}),
        "key without a certificate": kubeconfig(server, {"token": TOKEN, "client-key": "none"}),
        "broken key": kubeconfig(server, {"client-certificate-data": encoded(key), "client-key-data": encoded(broken)}),
        "key that is no base64": kubeconfig(server, {"client-certificate-data": encoded(key), "client-key-data": key}),
        "key that is a mapping": kubeconfig(server, {"client-key-data": {TOKEN: key}}),
        "password that is a list": kubeconfig(server, {"username": "me", "password": [PASSWORD]}),
        "proxy of another scheme": kubeconfig({**server, "proxy-url": PROXY.replace("http:", "ftp:")}),
        "proxy without a scheme": kubeconfig({**server, "proxy-url": PROXY.removeprefix("http://")}),
        "proxy with a bad port": kubeconfig({**server, "proxy-url": PROXY + "x"}),
        "SOCKS 4 proxy": kubeconfig({**server, "proxy-url": PROXY.replace("http:", "socks4:")}),
        "server with a password": kubeconfig({"server": f"https://me:{PASSWORD}@192.0.2.1"}),
        "server of another scheme": kubeconfig({"server": f"ftp://me:{PASSWORD}@192.0.2.1"}),
        "server with parameters": kubeconfig({"server": f"https://192.0.2.1?token={TOKEN}"}),
        "program that is missing": kubeconfig(
            server, {"exec": {"apiVersion": EXEC, "command": "/none", "args": [TOKEN], "env": [{"name": PASSWORD}]}}
        ),
        "environment that is no list": kubeconfig(
            server, {"exec": {"apiVersion": EXEC, "command": "/bin/true", "env": {"PASSWORD": PASSWORD}}}
        ),
        "token that YAML takes for a tag": text.format(f"token: !{TOKEN} x"),
        "token that YAML takes for an alias": text.format(f"token: *{TOKEN}"),
        "password that is no number": text.format(f"password: !!int {PASSWORD}"),
        "token in an open quote": text.format(f"token: '{TOKEN}"),
        "token with a tab": text.format(f"\ttoken: {TOKEN}"),
        "password with a colon": text.format(f"password: {PASSWORD}: x"),
    }


@pytest.mark.behaviour("operations/OP45")
@pytest.mark.parametrize("name", bad(""))
def test_errors_about_a_kubeconfig_show_no_secret(name, write, key, hidden, caplog):
    caplog.set_level(logging.DEBUG)
    path = write(bad(key)[name])
    with pytest.raises(ConfigError) as caught:
        load_connection(path).check()
    whole = "".join(traceback.format_exception(caught.value, limit=0))
    check("\n".join([str(caught.value), repr(caught.value), str(caught.value.hint), whole, caplog.text]), hidden)
    assert str(path.parent) in str(caught.value)


@pytest.mark.behaviour("operations/OP45")
@pytest.mark.parametrize("url", [f"http://me:{PASSWORD}@x", f"x://me:{PASSWORD}@x", f"http://x?a={TOKEN}", "http://"])
def test_errors_about_a_url_show_no_secret(url, hidden):
    with pytest.raises(ConfigError) as caught:
        from_url(url, TOKEN, None, True)
    check("".join(traceback.format_exception(caught.value, limit=0)), hidden)


@pytest.mark.behaviour("operations/OP45")
def test_errors_of_a_running_client_show_no_secret(write, authority, hidden, caplog):
    caplog.set_level(logging.DEBUG)
    command = {"apiVersion": EXEC, "command": "/bin/false", "args": [TOKEN], "env": [{"name": "A", "value": PASSWORD}]}
    proxied = {"server": "https://192.0.2.1", "proxy-url": PROXY.replace("proxy.example:3128", "127.0.0.1:1")}
    texts = []
    for cluster, user in (({"server": "http://127.0.0.1:1"}, {"exec": command}), (proxied, {"token": TOKEN})):
        client = Client.load(write(kubeconfig(cluster, user)))
        with pytest.raises(TransportError) as caught:
            client.get("v1", "Pod", "a")
        texts.append("".join(traceback.format_exception(caught.value, limit=0)))
    check("\n".join([*texts, caplog.text]), hidden)
