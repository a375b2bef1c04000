"""Commands that exit by themselves, as processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from tests.support.plugin_sources import GREETER, WIDGETS, hook


def test_the_version_is_printed(ctrlhost):
    for argument in ("version", "--version"):
        result = ctrlhost(argument)
        assert result.returncode == 0
        assert result.stdout.startswith("ctrlhost 0.")


def test_printing_the_version_imports_nothing_heavy():
    heavy = ["kubernetes", "msgspec", "pluggy", "prometheus_client", "starlette", "structlog", "urllib3", "yaml"]
    code = f"""import sys, ctrlhost.cli
ctrlhost.cli.execute(["version"])
print([name for name in {heavy} if name in sys.modules])"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.behaviour("findings3/NC7")
def test_the_command_line_may_be_called_again_in_a_process():
    code = """from ctrlhost.cli import main
for arguments in (["run", "--help"], ["run", "--help"], ["version"]):
    try:
        main(arguments)
    except SystemExit as ended:
        print("code", ended.code)"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.count("Usage: ctrlhost run ") == 2
    assert [line for line in result.stdout.splitlines() if line.startswith("code ")] == ["code 0"] * 3


@pytest.mark.behaviour("oncall/OC14")
def test_installed_plugins_are_listed_without_importing_them(ctrlhost, distributions):
    distributions.add("greeter", GREETER)
    distributions.add("broken", "raise SystemExit('imported')", version="2.1")
    result = ctrlhost("plugins")
    assert result.returncode == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["NAME", "VERSION", "DISTRIBUTION", "STATUS"]
    assert ["greeter", "1.0", "test-greeter", "installed"] in rows
    assert ["broken", "2.1", "test-broken", "installed"] in rows


def test_checking_the_plugins_names_the_failing_ones(ctrlhost, distributions):
    distributions.add("greeter", GREETER)
    distributions.add("broken", "raise SystemExit('imported')")
    result = ctrlhost("plugins", "--check")
    assert result.returncode == 1
    assert "error: it could not be imported: SystemExit: imported" in result.stdout
    assert next(line for line in result.stdout.splitlines() if line.startswith("greeter")).endswith("ok")


def test_crds_are_printed_as_yaml(ctrlhost, distributions):
    distributions.add("widgets", WIDGETS)
    result = ctrlhost("crds", "--plugins=widgets")
    assert result.returncode == 0
    (crd,) = yaml.safe_load_all(result.stdout)
    assert crd["metadata"]["name"] == "widgets.host.test"


def test_manifests_grant_exactly_the_rights_of_the_plugins(ctrlhost, distributions):
    distributions.add("widgets", WIDGETS)
    distributions.add("greeter", GREETER)
    result = ctrlhost(
        "manifests", "--plugins=greeter,widgets", "--image=example.com/host:1", "--set=host.drain_timeout=50s"
    )
    assert result.returncode == 0, result.stderr
    manifests = list(yaml.safe_load_all(result.stdout))
    assert [manifest["kind"] for manifest in manifests] == [
        "Namespace",
        "CustomResourceDefinition",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterRoleBinding",
        "ClusterRole",
        "ClusterRole",
        "ClusterRole",
        "Service",
        "NetworkPolicy",
        "Deployment",
    ]
    by_kind = {manifest["kind"]: manifest for manifest in manifests}
    crds = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}
    assert manifests[3]["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "list", "watch"]},
        {**crds, "verbs": ["list", "watch"]},
        {**crds, "verbs": ["get"], "resourceNames": ["widgets.host.test"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": ["host.test"], "resources": ["widgets"], "verbs": ["list", "watch"]},
    ]
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 60
    (container,) = pod["containers"]
    assert container["image"] == "example.com/host:1"
    assert container["args"] == [
        "run",
        "--plugins=greeter,widgets",
        "--set=host.listen_probes=:8484",
        "--set=host.listen_metrics=:8443",
        "--set=host.listen=127.0.0.1:8485",
        "--set=host.metrics_auth=kubernetes",
        "--set=host.drain_timeout=50s",
    ]


def test_a_host_limited_to_namespaces_needs_roles_only_there(ctrlhost, distributions):
    distributions.add("greeter", GREETER)
    result = ctrlhost("manifests", "--plugins=greeter", "-n", "one,two", "--image=host:1")
    roles = [manifest for manifest in yaml.safe_load_all(result.stdout) if manifest["kind"] == "Role"]
    assert [role["metadata"]["namespace"] for role in roles] == ["one", "two"]


def test_manifests_contain_the_settings_file(ctrlhost, distributions, tmp_path):
    distributions.add("greeter", GREETER)
    file = tmp_path / "settings.toml"
    file.write_text("[host]\nplugins = ['greeter']\nlisten = '127.0.0.1:9000'\n")
    manifests = {
        manifest["kind"]: manifest
        for manifest in yaml.safe_load_all(ctrlhost("manifests", f"--config={file}", "--image=host:1").stdout)
    }
    assert manifests["ConfigMap"]["data"] == {"ctrlhost.toml": file.read_text()}
    (container,) = manifests["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--config=/etc/ctrlhost/ctrlhost.toml" in container["args"]
    assert {"name": "status", "containerPort": 9000, "protocol": "TCP"} in container["ports"]
    assert not [argument for argument in container["args"] if argument.startswith("--set=host.listen=")]


def test_a_setup_that_uses_the_network_is_refused(ctrlhost, distributions):
    distributions.add("nosy", hook("ctrlhost_setup", "plugin.client.get('v1', 'Pod', 'a', 'b')"))
    result = ctrlhost("manifests", "--plugins=nosy")
    assert result.returncode == 1
    assert "ctrlhost_setup must not use the network" in result.stderr


def test_a_plugin_can_add_commands(ctrlhost, distributions):
    command = "import click; group.add_command(click.Command('hello', callback=lambda: click.echo('hi')))"
    distributions.add("talker", hook("ctrlhost_commands", command, "group"))
    assert ctrlhost("talker", "hello").stdout == "hi\n"
    assert "hello" in ctrlhost("talker", "--help").stdout
    assert "talker" in ctrlhost("--help").stdout


def test_a_failing_command_prints_one_line(ctrlhost, distributions):
    command = "import click; group.add_command(click.Command('fail', callback=lambda: 1 / 0))"
    distributions.add("talker", hook("ctrlhost_commands", command, "group"))
    result = ctrlhost("talker", "fail")
    assert (result.returncode, result.stderr) == (1, "error: ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rum"], "unknown command `rum`; did you mean `run`?"),
        (["plugins", "extra"], "unexpected extra argument"),
        (["manifests"], "no plugins selected"),
        (["sandbox", "--addr=here"], "Invalid value for '--addr': invalid address `here`"),
        (["run", "--sandbox", "--sandbox-addr=here"], "Invalid value for '--sandbox-addr': invalid address `here`"),
        (["sandbox", "--pod-run-delay=2"], "invalid duration `2`"),
        (["sandbox", "--controllers=gc,proxy"], "unknown controller `proxy`"),
        (["sandbox", "--feature-gates=Magic=true"], "unknown feature gate `Magic`"),
        (["run", "--sandbox", "--sandbox-feature-gates=Magic"], "invalid feature gate `Magic`: write NAME=true"),
        (["sandbox", "--data=/dev/null"], "/dev/null cannot be used: File exists"),
        (["sandbox", "--kubeconfig=/dev"], "/dev: "),
    ],
)
def test_usage_errors_are_one_line_and_code_2(ctrlhost, arguments, message):
    result = ctrlhost(*arguments)
    assert result.returncode == 2
    assert message in result.stderr.splitlines()[0]
    assert "Traceback" not in result.stderr


def test_the_reader_of_the_output_may_close_the_pipe(distributions):
    distributions.add("widgets", WIDGETS)
    command = f"{sys.executable} -m ctrlhost crds --plugins=widgets | head -1"
    result = subprocess.run(
        ["/bin/sh", "-c", command], env=distributions.environment(), capture_output=True, text=True, check=False
    )
    assert result.stdout == "---\n"
    assert result.stderr == ""
