"""Mistakes of who runs a host: one line that names the setting or the file, what to do, and exit code 2.

Others are tested where they belong: accounts and servers that fail later in `test_outages.py`, files of plugins in
`test_run_file.py`, settings of plugins in `test_usage.py`, a full disk of the sandbox beside it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml
from ctrlhost_sandbox import Sandbox

from tests.host.conftest import Distributions
from tests.host.test_outages import expired_token
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.manifests import SERVER
from tests.support.plugin_sources import GREETER, WIDGETS
from tests.support.tls_files import Authority

pytestmark = pytest.mark.behaviour("oncall/OC16")

Run = Callable[..., CompletedProcess[str]]
NOWHERE = {"server": "http://127.0.0.1:9"}
RUN = ("run", "--plugins=greeter", "--listen=127.0.0.1:0")
ON_SANDBOX = (*RUN, "--sandbox")


def refused(result: CompletedProcess[str], error: str, hint: str | None) -> None:
    """Assert that the first line is the error, the last one its hint, and that nothing else was printed or began."""
    assert (result.returncode, result.stdout) == (2, ""), result.stderr
    first, *rest = result.stderr.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert len(rest) == (0 if hint is None else 2), rest
    if hint is not None:
        assert rest[1].startswith("hint: ")
        assert hint in rest[1]


@pytest.fixture(autouse=True)
def greeter(distributions: Distributions) -> None:
    distributions.add("greeter", GREETER)


@pytest.fixture
def config(tmp_path: Path) -> Callable[[Any], Path]:
    return lambda content: written(tmp_path, content)


#: What is wrong with a kubeconfig: its content, options, the error, which names the file, and the hint.
KUBECONFIGS: dict[str, tuple[Any, tuple[str, ...], str, str | None]] = {
    "broken": ("clusters: [", (), "{file}: line 2, column 1: ", None),
    "empty": ("", (), "{file}: the file is empty", None),
    "without a context": (
        {**kubeconfig(NOWHERE), "current-context": ""},
        (),
        "{file}: no current-context is set",
        "choose one with `--context`; it has main",
    ),
    "unknown context": (
        kubeconfig(NOWHERE),
        ("--context=mian",),
        "{file}: there is no context `mian`",
        "choose one with `--context`; it has main",
    ),
    "missing CA file": (
        kubeconfig({"server": "https://127.0.0.1:9", "certificate-authority": "gone.pem"}),
        (),
        "{file}: clusters[k].cluster.certificate-authority names ",
        None,
    ),
    "scheme of the proxy": (
        kubeconfig({**NOWHERE, "proxy-url": "socks4://127.0.0.1:9"}),
        (),
        "{file} (--kubeconfig): the proxy socks4://127.0.0.1:9 speaks SOCKS 4, which is not supported: use socks5",
        None,
    ),
}


@pytest.mark.parametrize("name", KUBECONFIGS)
def test_a_kubeconfig(ctrlhost: Run, config: Callable[[Any], Path], name: str) -> None:
    content, options, error, hint = KUBECONFIGS[name]
    file = config(content)
    refused(ctrlhost(*RUN, f"--kubeconfig={file}", *options), error.format(file=file), hint)


def test_no_kubeconfig(ctrlhost: Run, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    refused(ctrlhost(*RUN, f"--kubeconfig={missing}"), f"kubeconfig {missing}: No such file", "--kubeconfig FILE")
    refused(ctrlhost(*RUN, KUBECONFIG=str(missing)), f"$KUBECONFIG names {missing}, which does not", "correct the var")
    refused(ctrlhost(*RUN), "no cluster is configured: no --kubeconfig, no $KUBECONFIG", "try `--sandbox`")


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY"])
def test_the_scheme_of_a_proxy_of_the_environment(ctrlhost: Run, config: Callable[[Any], Path], variable: str) -> None:
    result = ctrlhost(*RUN, f"--kubeconfig={config(kubeconfig(NOWHERE))}", **{variable: "ftp://127.0.0.1:9"})
    refused(result, f"${variable}: the proxy's address 'ftp://127.0.0.1:9' is not an http", None)


#: The command line, the error, and the hint.
COMMAND_LINES: dict[str, tuple[tuple[str, ...], str, str | None]] = {
    "unknown command": (("rnu",), "unknown command `rnu`; did you mean `run`?", "--help"),
    "unknown flag": ((*ON_SANDBOX, "--namespaces=a"), "No such option", "ctrlhost run --help"),
    "unknown plugin": (("run", "--plugins=greter", "--sandbox"), "plugin `greter` is not installed", "`greeter`?"),
    "no plugin": (("run", "--sandbox"), "no plugins selected; select some with `--plugins NAME,NAME`", "--help"),
    "no file": (("run", "nothing.py", "--sandbox"), "nothing.py: no such file", None),
    "a file that is no Python": (("run", "setup.cfg", "--sandbox"), "setup.cfg: not a Python file", "--plugins NAME"),
    "unknown setting": ((*ON_SANDBOX, "--set=host.lisen=a:1"), "host.lisen: unknown setting (in --set", "`listen`?"),
    "unknown choice": (
        (*ON_SANDBOX, "--set=host.log_level=loud"),
        "host.log_level: invalid enum value 'loud' (in --set host.log_level)",
        "one of: debug, info, warning, error",
    ),
    "unknown choice of a flag": (
        (*ON_SANDBOX, "--log-level=loud"),
        "'--log-level': 'loud' is not one of 'debug', 'info', 'warning', 'error'",
        "ctrlhost run --help",
    ),
    "two levels": ((*ON_SANDBOX, "-v", "--log-level=info"), "-v and --log-level are mutually exclusive", "--help"),
    "no value": ((*ON_SANDBOX, "--set=host.listen"), "--set host.listen: expected NAME.key=value", "as in `--set "),
    "two files": ((*ON_SANDBOX, "--config=a", "--config=b"), "--config is given 2 times; give it once", "--help"),
    "no settings file": ((*ON_SANDBOX, "--config=/none.toml"), "/none.toml: No such file or directory", "TOML file"),
    "lease times": (
        (*RUN, "--leader-elect", "--set=host.leader_elect_renew_deadline=20s", "--kubeconfig=/dev/null"),
        "host: `leader_elect_lease_duration` must be greater than `leader_elect_renew_deadline`",
        None,
    ),
    "foreign address": (
        ("run", "--plugins=greeter", "--kubeconfig=/dev/null", "--listen=192.0.2.1:8484"),
        "host.listen: cannot listen at 192.0.2.1:8484: Cannot assign requested address",
        "use an address of this machine",
    ),
    "a flag without effect": ((*RUN, "--sandbox-data=a"), "--sandbox-data has no effect without --sandbox", "--help"),
    "flags that exclude each other": ((*ON_SANDBOX, "--context=a"), "--context and --sandbox are mutually", "--help"),
    "a flag of another command": ((*ON_SANDBOX, "--manifest=a"), "`ctrlhost dev` has --manifest", "--help"),
    "manifests without an image": (("manifests", "--plugins=greeter"), "--image: missing", "Dockerfile"),
    "unknown shell": (("completion", "csh"), "'csh' is not one of 'bash', 'zsh', 'fish'", "--help"),
    "data in a file": (("sandbox", "--data=/dev/null"), "/dev/null cannot be used: File exists", None),
}


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_a_command_line(ctrlhost: Run, name: str) -> None:
    arguments, error, hint = COMMAND_LINES[name]
    refused(ctrlhost(*arguments), error, hint)


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("[host", "{file}: invalid TOML: ", "settings are TOML"),
        (
            "host:\n  listen: 127.0.0.1:0\n",
            "{file}: invalid TOML: ",
            "settings are TOML: a line `[host]`, and below it",
        ),
        ("[hots]\nlisten = ''\n", "hots: unknown section (in {file})", "did you mean `host`?"),
        ("[host]\nlisten = 1\n", "host.listen: ", None),
    ],
    ids=["broken", "YAML", "unknown section", "another type"],
)
def test_a_settings_file(ctrlhost: Run, tmp_path: Path, text: str, error: str, hint: str | None) -> None:
    file = written(tmp_path, text, "ctrlhost.toml")
    refused(ctrlhost("run", "--plugins=greeter", "--sandbox", f"--config={file}"), error.format(file=file), hint)


def test_a_variable_of_the_environment(ctrlhost: Run) -> None:
    result = ctrlhost(*ON_SANDBOX, CTRLHOST_HOST__DRAIN_TIMEOUT="soon")
    refused(result, "host.drain_timeout: invalid duration `soon`", None)
    assert "(in CTRLHOST_HOST__DRAIN_TIMEOUT)" in result.stderr
    refused(ctrlhost(*ON_SANDBOX, CTRLHOST_HOST__LISEN="a:1"), "(in CTRLHOST_HOST__LISEN)", "did you mean `listen`?")


@pytest.mark.parametrize("where", ["host", "plugin"])
def test_a_port_in_use(ctrlhost: Run, distributions: Distributions, sandbox: Any, where: str) -> None:
    distributions.add("server", SERVER)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listen, setting = (f"127.0.0.1:{port}", 0) if where == "host" else ("", port)
        options = (f"--kubeconfig={sandbox.kubeconfig}", f"--listen={listen}", f"--set=server.port={setting}")
        result = ctrlhost("run", "--plugins=server", *options)
    name = "host.listen" if where == "host" else "plugins.server.address and its port"
    error = next(line for line in result.stderr.splitlines() if line.startswith("error: "))
    assert result.returncode == 2
    assert error.startswith(f"error: {name}: port {port} is in use by another process")
    assert "hint: choose another port" in result.stderr


def test_an_address_of_a_plugin_that_is_not_of_this_machine(
    ctrlhost: Run, distributions: Distributions, sandbox: Any
) -> None:
    distributions.add("server", SERVER)
    options = (f"--kubeconfig={sandbox.kubeconfig}", "--listen=", "--set=server.address=192.0.2.1")
    result = ctrlhost("run", "--plugins=server", *options)
    assert result.returncode == 2, result.stderr
    assert "error: plugins.server.address and its port: cannot listen at 192.0.2.1:" in result.stderr
    assert "hint: use an address of this machine" in result.stderr


# What a server says is a finding of `check`, which names the context and the file; a host tries again, and logs it.


@pytest.fixture(scope="module")
def server() -> Iterator[Sandbox]:
    with Sandbox(rbac=True) as sandbox:
        yield sandbox


def of_sandbox(server: Sandbox, user: dict[str, Any] | None = None, /, **cluster: Any) -> dict[str, Any]:
    """Return a kubeconfig for the sandbox, with other values for its cluster and its user."""
    content: dict[str, Any] = yaml.safe_load(server.kubeconfig.read_text())
    content["clusters"][0]["cluster"] |= cluster
    if user is not None:
        content["users"][0]["user"] = user
    return content


def program(command: str) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": command, "interactiveMode": "Never", "installHint": "get it"}}


#: What is wrong: the kubeconfig for a sandbox, the error, and the hint or what else the line has.
SERVERS: dict[str, tuple[Callable[[Sandbox], dict[str, Any]], str, str]] = {
    "down": (lambda server: of_sandbox(server, server="https://127.0.0.1:9"), "Connection refused", ""),
    "DNS": (lambda server: of_sandbox(server, server="https://none.invalid"), "cannot resolve none.invalid", ""),
    "name in TLS": (
        lambda server: of_sandbox(server, **{"tls-server-name": "other.example"}),
        "the certificate of the server is not valid for other.example",
        "",
    ),
    "plain HTTP": (
        lambda server: of_sandbox(server, server=server.url.replace("https:", "http:")),
        "the server speaks TLS on this port: use an https URL",
        "",
    ),
    "expired token": (lambda server: of_sandbox(server, {"token": expired_token()}), "Unauthorized (context ", ""),
    "no program": (lambda server: of_sandbox(server, program("none-such")), "none-such", "get it"),
    "failing program": (lambda server: of_sandbox(server, program("false")), "failed with code 1", ""),
}


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_or_an_account(ctrlhost: Run, config: Callable[[Any], Path], server: Sandbox, name: str) -> None:
    make, error, hint = SERVERS[name]
    file = config(make(server))
    checked(ctrlhost("check", "--plugins=greeter", f"--kubeconfig={file}"), error, file, hint)


def checked(result: CompletedProcess[str], error: str, file: Path, hint: str) -> str:
    """Assert that one error is about the server, and names the file; return it."""
    assert result.returncode == 1, result.stderr
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("error host server: "))
    assert error in line
    assert str(file) in line
    assert hint in result.stderr
    return line


def test_another_ca_is_named_with_the_entry_and_the_file(
    ctrlhost: Run, config: Callable[[Any], Path], server: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text(Authority(tmp_path, "another authority").pem)
    content = of_sandbox(server)
    cluster = content["clusters"][0]["cluster"]
    cluster.pop("certificate-authority-data", None)
    cluster["certificate-authority"] = "ca.pem"
    file = config(content)
    result = ctrlhost("check", "--plugins=greeter", f"--kubeconfig={file}")
    line = checked(result, "signed by an unknown authority", file, "set `certificate-authority` in the kubeconfig")
    assert f"context `{content['current-context']}`" in line


def test_a_proxy_that_is_down_is_named_by_its_variable(
    ctrlhost: Run, config: Callable[[Any], Path], server: Sandbox
) -> None:
    file = config(of_sandbox(server))
    variables = {"HTTPS_PROXY": "http://127.0.0.1:9", "no_proxy": "", "https_proxy": "http://127.0.0.1:9"}
    result = ctrlhost("check", "--plugins=greeter", f"--kubeconfig={file}", **variables)
    line = checked(result, "the proxy failed", file, "")
    assert "through the proxy of $https_proxy" in line


def test_no_rights(ctrlhost: Run, distributions: Distributions, server: Sandbox) -> None:
    own = server.kubeconfig_for(user="somebody")
    result = ctrlhost("check", "--plugins=greeter", f"--kubeconfig={own}")
    assert result.returncode == 1
    errors = [line for line in result.stdout.splitlines() if line.startswith("error ")]
    assert errors
    assert all(line.startswith("error greeter right: may not ") and ": add {" in line for line in errors)
    assert "hint: `ctrlhost manifests --plugins=greeter --image=IMAGE` prints the " in result.stderr


def test_a_crd_that_is_missing(ctrlhost: Run, distributions: Distributions, sandbox: Any) -> None:
    distributions.add("widgets", WIDGETS)
    result = ctrlhost("check", "--plugins=widgets", f"--kubeconfig={sandbox.kubeconfig}")
    assert result.returncode == 1
    assert "error widgets crd: widgets.host.test is not installed\n" in result.stdout
    assert "hint: `ctrlhost crds` prints it; `ctrlhost run --install-crds` installs it" in result.stderr


def test_a_lease_without_rights_is_said_once_with_the_rule(
    start_host: Any, distributions: Distributions, server: Sandbox
) -> None:
    own = server.kubeconfig_for(user="nobody")
    times = ("lease_duration=3s", "renew_deadline=2s", "retry_period=100ms")
    options = [f"--set=host.leader_elect_{time}" for time in times]
    options += [f"--kubeconfig={own}", "--leader-elect", "--set=host.leader_elect_resource_namespace=default"]
    host = start_host(*options, plugins="greeter")
    line = host.line("lease default/ctrlhost: ", "forbidden")["msg"]
    verbs = ["create", "get", "list", "watch", "update"]
    rule = json.dumps({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs})
    assert line.endswith(f"; add {rule} to a Role in namespace default")
    # It has tried again meanwhile.
    host.eventually(lambda: _requests(host) >= 5, "further attempts")
    said = [entry["msg"] for entry in host.lines if entry["msg"].startswith("lease default/ctrlhost: ")]
    assert said == [line]


def _requests(host: Any) -> float:
    """Return how many requests for Leases were refused."""
    metrics = host.get("/metrics")[1]
    found = re.findall(r'rest_client_requests_total\{([^}]*code="403"[^}]*)\} ([\d.]+)', metrics)
    return sum(float(count) for _, count in found)
