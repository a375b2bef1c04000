"""The search for the kubeconfig, and the errors of invalid ones."""

from __future__ import annotations

import base64
import os
import sys
from typing import Any

import pytest
import yaml

from ctrlhost.client import Client
from ctrlhost.errors import ConfigError
from tests.support.kubeconfigs import find, kubeconfig, service_account
from tests.support.stub_api_server import Json, StubApiServer

pytestmark = pytest.mark.behaviour("scale/SC50")

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_the_flag_precedes_the_environment_then_the_pod_then_the_home(tmp_path, write, authority, caplog):
    caplog.set_level("INFO")
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_text(yaml.safe_dump(kubeconfig({"server": "http://home"})))
    flag, env = write(kubeconfig({"server": "http://flag"}), "flag"), write(kubeconfig({"server": "http://env"}), "env")
    account = service_account(tmp_path)
    (account / "ca.crt").write_text(authority.pem)
    everything = {**IN_CLUSTER, "KUBECONFIG": str(env)}

    def url(**options: Any) -> str:
        return find(tmp_path, **{"service_account": account, "home": home, **options}).url

    assert url(kubeconfig=flag, environ=everything) == "http://flag"
    assert url(environ=everything) == "http://env"
    assert url(environ=IN_CLUSTER) == "https://10.0.0.1:443"
    assert url(environ={}) == "http://home"
    assert f"cluster http://flag from context `main` of {flag} (--kubeconfig)" in caplog.text


def test_a_missing_configuration_error_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="no cluster is configured") as caught:
        find(tmp_path)
    assert "--kubeconfig" in (caught.value.hint or "")


def test_a_kubeconfig_variable_with_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        find(tmp_path, {"KUBECONFIG": str(tmp_path / "missing")})


def test_several_files_are_merged_and_the_first_definition_of_a_name_wins(tmp_path, write):
    first = write({"current-context": "b", "clusters": [{"name": "k", "cluster": {"server": "http://one"}}]}, "one")
    second = write(
        {**kubeconfig({"server": "http://two"}), "contexts": [{"name": "b", "context": {"cluster": "k"}}]}, "two"
    )
    connection = find(tmp_path, {"KUBECONFIG": f"{first}{os.pathsep}{second}{os.pathsep}{tmp_path / 'missing'}"})
    assert connection.url == "http://one"


@pytest.mark.behaviour("findings3/NB8")
@pytest.mark.parametrize("empty", ["", "# nothing yet\n", "---\n", "null\n"])
@pytest.mark.parametrize("places", [(0, 1), (1, 0)])
def test_files_without_content_are_skipped(tmp_path, write, empty, places):
    files = [write(empty, "empty"), write(kubeconfig({"server": "http://good"}), "good")]
    joined = os.pathsep.join(str(files[place]) for place in places)
    assert find(tmp_path, environ={"KUBECONFIG": joined}).url == "http://good"


@pytest.mark.behaviour("findings3/NB8")
@pytest.mark.parametrize("empty", ["", "# nothing yet\n", "---\n", "null\n"])
def test_without_any_content_the_files_are_named(tmp_path, write, empty):
    first, second = write(empty, "one"), write(empty, "two")
    with pytest.raises(ConfigError, match=f"^kubeconfig {first}: the file is empty"):
        find(tmp_path, kubeconfig=first)
    with pytest.raises(ConfigError, match=f"^kubeconfig {first}: the file is empty"):
        find(tmp_path, environ={"KUBECONFIG": str(first)})
    with pytest.raises(ConfigError, match=f"^kubeconfig {first}, {second}: all of these files are empty"):
        find(tmp_path, environ={"KUBECONFIG": f"{first}{os.pathsep}{second}"})


@pytest.mark.behaviour("findings3/NB14")
def test_the_scheme_of_an_address_may_be_in_capitals(tmp_path, write, authority):
    from kubernetes import client as official

    ca = base64.b64encode(authority.pem.encode()).decode()
    (tmp_path / "ca.pem").write_text(authority.pem)
    with StubApiServer(tls=authority.server_context()) as server:
        server.on("GET", "/api/v1/nodes/a", Json({"metadata": {"name": "a"}}))
        address = server.url.replace("https://", "HTTPS://")
        path = write(kubeconfig({"server": address, "certificate-authority-data": ca}))
        assert find(tmp_path, kubeconfig=path).url == server.url
        for client in (
            Client.load(path),
            Client(address, ca=authority.pem),
            Client.from_configuration(official.Configuration(host=address, ssl_ca_cert=str(tmp_path / "ca.pem"))),
        ):
            assert client.get("v1", "Node", "a")["metadata"]["name"] == "a"


def test_a_context_can_be_chosen_and_sets_the_namespace(tmp_path, write):
    config = kubeconfig({"server": "http://x"})
    config["contexts"].append({"name": "other", "context": {"cluster": "k", "namespace": "team"}})
    assert find(tmp_path, kubeconfig=write(config), context="other").namespace == "team"


BROKEN = {
    "no YAML": ("a: [", r"line \d+, column \d+"),
    "tabs": ("\ta: b", r"line \d+"),
    "binary": ("\x00\x01", "invalid YAML|line"),
    "empty": ("", "the file is empty"),
    "a text": ("hello", "must be a mapping, got a string"),
    "a list": ("[1]", "must be a mapping, got a list"),
    "nothing in it": ("{}", "no current-context is set"),
    "clusters no list": (
        {"clusters": {}, "current-context": "x", "contexts": {"a": 1}},
        "contexts must be a list, got a mapping",
    ),
    "no such context": (
        {**kubeconfig({"server": "http://x"}), "current-context": "gone"},
        "there is no context `gone`",
    ),
    "current-context no text": ({"current-context": 7}, "current-context must be a string, got a number"),
    "unnamed": ({"clusters": [{"cluster": {}}]}, r"clusters\[0\]\.name is missing"),
    "cluster missing": (
        {**kubeconfig({}), "clusters": []},
        r"contexts\[main\]\.context\.cluster names `k`, which is not in clusters",
    ),
    "user missing": ({**kubeconfig({"server": "http://x"}), "users": []}, r"contexts\[main\]\.context\.user names `u`"),
    "no server": (kubeconfig({}), r"clusters\[k\]\.cluster\.server is missing"),
    "server no URL": (kubeconfig({"server": "hello"}), "is not an http or https URL"),
    "server a bad port": (kubeconfig({"server": "http://x:port"}), "is not an http or https URL"),
    "server a broken host": (kubeconfig({"server": "http://[::1"}), "is not an http or https URL"),
    "server with a query": (kubeconfig({"server": "http://x?a=b"}), "only have a host, a port and a path"),
    "server with a password": (kubeconfig({"server": "http://me:secret@x"}), "only have a host, a port and a path"),
    "proxy no URL": (
        kubeconfig({"server": "http://x", "proxy-url": "proxy:3128"}),
        r"clusters\[k\]\.cluster\.proxy-url must be a URL",
    ),
    "proxy a broken host": (kubeconfig({"server": "http://x", "proxy-url": "http://[::1"}), "proxy's address"),
    "proxy of another kind": (kubeconfig({"server": "http://x", "proxy-url": "ftp://x"}), "not an http, https or"),
    "server a number": (kubeconfig({"server": 7}), r"clusters\[k\]\.cluster\.server must be a string, got a number"),
    "flag no boolean": (kubeconfig({"server": "http://x", "insecure-skip-tls-verify": "yes"}), "must be true or false"),
    "CA file missing": (
        kubeconfig({"server": "https://x", "certificate-authority": "gone.pem"}),
        r"certificate-authority names .*gone\.pem, which does not exist",
    ),
    "CA no base64": (
        kubeconfig({"server": "https://x", "certificate-authority-data": "%%%"}),
        r"certificate-authority-data must be PEM in base64",
    ),
    "CA no certificate": (
        kubeconfig({"server": "https://x", "certificate-authority-data": "aGVsbG8="}),
        "contains no usable CA certificate",
    ),
    "CA no ASCII": (
        kubeconfig({"server": "https://x", "certificate-authority-data": "w7zDvA=="}),
        "contains no usable CA certificate",
    ),
    "certificate without key": (
        kubeconfig({"server": "https://x"}, {"client-certificate-data": "aGVsbG8="}),
        r"users\[u\]\.user\.client-key-data is missing",
    ),
    "certificate no PEM": (
        kubeconfig({"server": "https://x"}, {"client-certificate-data": "aGVsbG8=", "client-key-data": "aGVsbG8="}),
        "and its key are unusable",
    ),
    "token file missing": (kubeconfig({"server": "http://x"}, {"tokenFile": "gone"}), "token file .*gone"),
    "token no text": (
        kubeconfig({"server": "http://x"}, {"token": 1}),
        r"users\[u\]\.user\.token must be a string, got a number",
    ),
    "token of two lines": (kubeconfig({"server": "http://x"}, {"token": "a\nb"}), r"user\.token contains characters"),
    "an old provider without its settings": (
        kubeconfig({"server": "http://x"}, {"auth-provider": {"name": "gcp"}}),
        r"users\[u\]\.user\.auth-provider is unusable",
    ),
    "exec without command": (
        kubeconfig({"server": "http://x"}, {"exec": {"apiVersion": "v1"}}),
        r"users\[u\]\.user\.exec\.command is missing",
    ),
    "exec args": (
        kubeconfig({"server": "http://x"}, {"exec": {"apiVersion": "v1", "command": "x", "args": 1}}),
        r"exec\.args must be a list",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_malformed_kubeconfig_is_an_error_that_names_the_file_and_the_fault(tmp_path, write, name):
    content, message = BROKEN[name]
    path = write(content)
    with pytest.raises(ConfigError, match=message) as caught:
        find(tmp_path, kubeconfig=path)
    assert str(path) in str(caught.value) or str(path.parent) in str(caught.value)


def test_a_proxy_from_the_environment_needs_no_scheme(tmp_path, write, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "proxy.corp:3128")
    monkeypatch.setenv("no_proxy", "")
    connection = find(tmp_path, kubeconfig=write(kubeconfig({"server": "http://x"})))
    assert connection.proxy() == ("http", "proxy.corp", 3128, None, [])


@pytest.mark.behaviour("scale/SC46")
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("socks4://me:pw@x:1", "the proxy socks4://x:1 speaks SOCKS 4, which is not supported: use socks5 or socks5h"),
        ("socks4a://x", "speaks SOCKS 4"),
        ("ftp://me:pw@x", "the proxy's address 'ftp://x' is not an http, https or socks5 URL"),
    ],
)
def test_a_proxy_of_another_kind_is_refused_without_its_password(tmp_path, write, url, message):
    with pytest.raises(ConfigError, match=message) as caught:
        find(tmp_path, kubeconfig=write(kubeconfig({"server": "http://x", "proxy-url": url})))
    assert "pw" not in str(caught.value)


def test_an_unreadable_kubeconfig_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=f"kubeconfig {tmp_path}: Is a directory"):
        find(tmp_path, kubeconfig=tmp_path)


@pytest.mark.behaviour("operations/OP162")
def test_an_old_provider_without_the_official_client_names_the_package(tmp_path, write, monkeypatch):
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    path = write(kubeconfig({"server": "http://x"}, {"auth-provider": {"name": "gcp"}}))
    with pytest.raises(ConfigError, match="auth-provider needs the package `kubernetes`") as caught:
        find(tmp_path, kubeconfig=path)
    assert caught.value.hint == "install it with `pip install kubernetes`"
