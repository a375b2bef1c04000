"""The objects that `ctrlhost manifests` prints."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.support.manifests import SERVER, Manifest, Printed, container, of_kind, template
from tests.support.plugin_sources import GREETER, WIDGETS

behaviour = pytest.mark.behaviour
HASH = "ctrlhost.dev/config-hash"
COMMON = {"app.kubernetes.io/part-of": "ctrlhost", "app.kubernetes.io/managed-by": "ctrlhost"}
ALL = "bitcoin,hostname,ingress-status,naming"


@pytest.fixture(autouse=True)
def plugins(distributions: Any) -> None:
    distributions.add("greeter", GREETER)
    distributions.add("widgets", WIDGETS, version="2.1")
    distributions.add("server", SERVER)


def config_hash(manifests: list[Manifest]) -> str:
    digest: str = template(manifests)["metadata"]["annotations"][HASH]
    return digest


@behaviour("operations/OP144")
def test_the_output_depends_on_the_input_alone() -> None:
    def output(**environment: str) -> bytes:
        command = [
            sys.executable,
            "-m",
            "ctrlhost",
            "manifests",
            f"--plugins={ALL}",
            "--leader-elect",
            "--image=host:1",
        ]
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, check=True, timeout=60)
        return done.stdout

    first = output(PYTHONHASHSEED="1", LC_ALL="C.UTF-8")
    assert hashlib.sha256(first).digest() == hashlib.sha256(output(PYTHONHASHSEED="2", LC_ALL="C")).digest()
    assert first == output(PYTHONHASHSEED="3", LC_ALL="tr_TR.ISO-8859-9", LANGUAGE="tr", TZ="Asia/Tokyo")
    documents = list(yaml.safe_load_all(first))
    identities = [
        (document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"])
        for document in documents
    ]
    assert len(set(identities)) == len(identities)


@behaviour("operations/OP145")
def test_changes_replace_the_pods_and_comments_do_not(printed: Printed, settings_file: Callable[[str], str]) -> None:
    def of(text: str, *arguments: str) -> list[Manifest]:
        return printed("--plugins=server", settings_file(text), *arguments)

    plain = "[plugins.server]\nport = 9100\n"
    first = of(plain)
    commented = of("# A comment.\n" + plain)
    assert template(commented) == template(first)
    assert of_kind(commented, "ConfigMap") != of_kind(first, "ConfigMap")

    changes = [
        of(plain.replace("9100", "9101")),
        of(plain, "--set=host.drain_timeout=50s"),
        of(plain, "--secret=server.token=server/token"),
        of(plain, "--secret=server.token=server/other"),
        of(plain, "--secret-file=server.token=server/token"),
    ]
    hashes = [config_hash(manifests) for manifests in (first, *changes)]
    assert len(set(hashes)) == len(hashes)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in hashes)
    others = [of(plain, "--image=example.com/host:2"), of(plain, "--plugins=server,greeter")]
    for change in (*changes, *others):
        assert template(change) != template(first)


def test_the_admin_api_is_on_only_with_its_flag(printed: Printed) -> None:
    for arguments, on in (([], False), (["--admin"], True), (["--set=host.admin=true"], True)):
        (deployment,) = of_kind(printed("--plugins=greeter", *arguments), "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert ("--admin" in container["args"]) is on


@behaviour("operations/OP146")
def test_a_leader_election_gets_two_replicas_on_different_nodes(printed: Printed) -> None:
    elected, alone = printed("--plugins=greeter", "--leader-elect"), printed("--plugins=greeter")

    (deployment,) = of_kind(elected, "Deployment")
    labels = deployment["spec"]["selector"]["matchLabels"]
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"] == {"type": "RollingUpdate"}
    (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert spread["labelSelector"]["matchLabels"] == labels
    (budget,) = of_kind(elected, "PodDisruptionBudget")
    assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}

    (deployment,) = of_kind(alone, "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert "topologySpreadConstraints" not in deployment["spec"]["template"]["spec"]
    assert of_kind(alone, "PodDisruptionBudget") == []


@behaviour("operations/OP23")
@behaviour("operations/OP147")
def test_listeners_of_plugins_are_on_all_addresses_and_declared(bundled: Printed, printed: Printed) -> None:
    manifests = bundled("--plugins=hostname")
    assert "--set=hostname.rest-address=[::]" in container(manifests)["args"]
    ports = {port["name"]: port["containerPort"] for port in container(manifests)["ports"]}
    assert ports == {"probes": 8484, "metrics": 8443, "status": 8485, "hostname": 8080}
    services = {manifest["metadata"]["name"]: manifest["spec"] for manifest in of_kind(manifests, "Service")}
    assert services["ctrlhost-hostname"]["ports"] == [
        {"name": "hostname", "port": 8080, "targetPort": "hostname", "protocol": "TCP"}
    ]

    # One that is bound to loopback for good is declared, and reached by nobody.
    manifests = printed("--plugins=server")
    assert "--set=server.address=[::]" in container(manifests)["args"]
    ports = {port["name"]: port["containerPort"] for port in container(manifests)["ports"]}
    assert ports == {"probes": 8484, "metrics": 8443, "status": 8485, "server": 9100, "server-2": 9200}
    (service,) = (
        manifest for manifest in of_kind(manifests, "Service") if manifest["metadata"]["name"] == "ctrlhost-server"
    )
    assert [port["port"] for port in service["spec"]["ports"]] == [9100]

    # What the operator gives is kept, and what only this shell has is passed on.
    kept = printed("--plugins=server", "--set=server.address=127.0.0.1")
    assert not any("[::]" in argument for argument in container(kept)["args"])
    assert [manifest["metadata"]["name"] for manifest in of_kind(kept, "Service")] == ["ctrlhost-metrics"]
    passed = printed("--plugins=server", CTRLHOST_PLUGINS__SERVER__ADDRESS="0.0.0.0")
    assert "--set=server.address=0.0.0.0" in container(passed)["args"]
    assert len(of_kind(passed, "Service")) == 2


@behaviour("operations/OP148")
def test_an_explicit_address_is_kept(printed: Printed, settings_file: Callable[[str], str]) -> None:
    def of(manifests: list[Manifest]) -> tuple[list[str], dict[str, int]]:
        arguments = [arg for arg in container(manifests)["args"] if "host.listen" in arg]
        return arguments, {port["name"]: port["containerPort"] for port in container(manifests)["ports"]}

    arguments, ports = of(printed("--plugins=greeter", "--set=host.listen=[::1]:9000"))
    assert [argument for argument in arguments if "host.listen=" in argument] == ["--set=host.listen=[::1]:9000"]
    assert ports == {"probes": 8484, "metrics": 8443, "status": 9000}
    arguments, ports = of(printed("--plugins=greeter", settings_file("[host]\nlisten = '127.0.0.1:9001'\n")))
    assert not [argument for argument in arguments if "host.listen=" in argument]
    assert ports["status"] == 9001
    arguments, ports = of(printed("--plugins=greeter", CTRLHOST_HOST__LISTEN="[::1]:9002"))
    assert "--set=host.listen=[::1]:9002" in arguments
    arguments, ports = of(printed("--plugins=greeter", "--set=host.listen="))
    assert arguments == ["--set=host.listen_probes=:8484", "--set=host.listen_metrics=:8443", "--set=host.listen="]
    assert "status" not in ports


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set=host.listen=:8484"], "host.listen_probes and host.listen have the same port 8484"),
        (["--set=host.listen=127.0.0.1:0"], "host.listen: port 0 cannot be declared"),
        (["--set=host.listen=here"], "host.listen: invalid address `here`"),
        (["--set=server.port=8443"], "host.listen_metrics and a listener of the plugin `server` have the same port"),
        (["--memory=lots"], "--memory: invalid size `lots`"),
        (["--memory=0"], "--memory 0: must be positive"),
        (["--memory-limit=64Mi"], "--memory-limit 64Mi: must not be less than the memory requested, 128Mi"),
        (["--cpu-limit=all"], "--cpu-limit all: invalid quantity"),
        (["--secret=server.token"], "--secret server.token: expected NAME.key=SECRET/KEY"),
        (["--secret-file=server.token=A/b"], "--secret-file server.token=A/b: expected NAME.key=SECRET/KEY"),
        (["--secret=greeter.token=a/b"], "--secret greeter.token: the host runs no plugin `greeter`"),
        (["--secret=server.token=a/b", "--secret-file=server.token=a/b"], "server.token: the setting has two Secrets"),
        (["--secret-file=server.address=a/b"], "--secret-file server.address: the setting is not a secret"),
        (["--secret=server.tokin=a/b"], "plugins.server.tokin: unknown setting (in --secret server.tokin)"),
    ],
)
def test_invalid_options_are_refused(ctrlhost: Any, arguments: list[str], message: str) -> None:
    result = ctrlhost("manifests", "--plugins=server", *arguments)
    assert result.returncode == 2
    assert message in result.stderr.splitlines()[0]
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@behaviour("operations/OP152")
def test_each_plugin_may_have_a_deployment_of_its_own(bundled: Printed) -> None:
    names = ALL.split(",")
    manifests = bundled(
        f"--plugins={ALL}",
        "--deployments=per-plugin",
        "--leader-elect",
        "--isolate=naming",
        "--set=host.leader_elect_plugins=naming",
    )
    accounts = [f"ctrlhost-{name}" for name in names]
    for kind in ("ServiceAccount", "Deployment", "NetworkPolicy", "PodDisruptionBudget"):
        assert [manifest["metadata"]["name"] for manifest in of_kind(manifests, kind)] == accounts
    assert len(of_kind(manifests, "ConfigMap")) == 0

    shared = {manifest["metadata"]["name"]: manifest for manifest in of_kind(manifests, "Deployment")}
    for name, account in zip(names, accounts, strict=True):
        pod = shared[account]["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == account
        arguments = pod["containers"][0]["args"]
        assert f"--plugins={name}" in arguments
        assert f"--set=host.leader_elect_resource_name=ctrlhost-{name}" in arguments
        assert arguments[-1] == "--set=host.leader_elect_plugins="
        assert ("--isolate=naming" in arguments) == (name == "naming")

        # Its rights are those of a deployment of the plugin alone, but for the names.
        alone = bundled(f"--plugins={name}", f"--name={account}", "--leader-elect")
        # The Lease of a Deployment is named after it, too.
        assert make_roles(manifests, account) == make_roles(alone, account)


def make_roles(manifests: list[Manifest], account: str) -> dict[tuple[str, str | None, str], Any]:
    """Return the Roles and ClusterRoles that are bound to an account alone, without their labels."""
    bound = {
        (binding["roleRef"]["kind"], binding["metadata"].get("namespace"), binding["roleRef"]["name"])
        for binding in manifests
        if binding["kind"].endswith("Binding")
        and binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "ctrlhost-system"}]
        and binding["roleRef"]["name"].endswith(account)
    }
    roles = {
        (role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"]): role["rules"]
        for role in manifests
        if "rules" in role and role["metadata"]["name"].endswith(account)
    }
    assert roles.keys() == bound
    return roles


@behaviour("operations/OP151")
def test_secrets_are_references(printed: Printed) -> None:
    manifests = printed(
        "--plugins=server,greeter",
        "--secret=server.token=logins/the-token",
        "--secret-file=server.password=passwords/old.txt",
    )
    variables = {variable["name"]: variable for variable in container(manifests)["env"]}
    assert variables["CTRLHOST_PLUGINS__SERVER__TOKEN"]["valueFrom"] == {
        "secretKeyRef": {"name": "logins", "key": "the-token"}
    }
    path = variables["CTRLHOST_PLUGINS__SERVER__PASSWORD_FILE"]["value"]
    (mount,) = (entry for entry in container(manifests)["volumeMounts"] if path.startswith(f"{entry['mountPath']}/"))
    assert mount["readOnly"] is True
    (volume,) = (entry for entry in template(manifests)["spec"]["volumes"] if entry["name"] == mount["name"])
    item = path.removeprefix(f"{mount['mountPath']}/")
    assert volume["secret"]["secretName"] == "passwords"
    assert volume["secret"]["items"] == [{"key": "old.txt", "path": item}]


@behaviour("operations/OP151")
@pytest.mark.parametrize("source", ["file", "set"])
def test_values_of_secrets_are_refused(ctrlhost: Any, settings_file: Callable[[str], str], source: str) -> None:
    option = (
        settings_file("[plugins.server]\ntoken = 'hunter2'\n") if source == "file" else "--set=server.token=hunter2"
    )
    for more in ([], ["--secret=server.token=logins/token"]):
        result = ctrlhost("manifests", "--plugins=server", option, *more)
        assert result.returncode == 2
        lines = [line for line in result.stderr.splitlines() if line.startswith(("error:", "hint:"))]
        assert lines == [
            "error: plugins.server.token: the manifests would show the secret",
            "hint: leave it out, and write `--secret server.token=SECRET/KEY`, or `--secret-file` for a file",
        ]
        assert "hunter2" not in result.stdout + result.stderr

    # The path of a file in the pod, and what only the environment has, show nothing.
    file = settings_file("[plugins.server]\ntoken = {file = '/dev/null'}\n")
    there = ctrlhost("manifests", "--plugins=server", "--image=host:1", file)
    assert there.returncode == 0, there.stderr
    passed = ctrlhost("manifests", "--plugins=server", "--image=host:1", CTRLHOST_PLUGINS__SERVER__TOKEN="hunter2")
    assert passed.returncode == 0
    assert "hunter2" not in passed.stdout + passed.stderr


def test_namespaces_are_created_for_roles_and_never_those_of_kubernetes(bundled: Printed, printed: Printed) -> None:
    def names(*arguments: str) -> list[str]:
        return [
            manifest["metadata"]["name"] for manifest in of_kind(bundled(f"--plugins={ALL}", *arguments), "Namespace")
        ]

    assert names() == ["ctrlhost-system", "lease", "projectcontour"]
    assert names("--no-namespaces") == ["ctrlhost-system"]
    assert names("--deploy-namespace=kube-system", "--no-namespaces") == []
    assert names("--deploy-namespace=default") == ["lease", "projectcontour"]

    manifests = printed("--plugins=greeter", "-n", "one,kube-public")
    own, further = of_kind(manifests, "Namespace")
    assert further["metadata"] == {"name": "one", "annotations": {"ctrlhost.dev/shared": "true"}}
    assert own["metadata"]["labels"] == COMMON | {
        f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
    }


def test_crds_carry_the_version_of_their_plugin(printed: Printed) -> None:
    (crd,) = of_kind(printed("--plugins=widgets"), "CustomResourceDefinition")
    assert crd["metadata"]["annotations"] == {"ctrlhost.dev/plugin-version": "2.1"}


def test_resources_are_as_given(printed: Printed) -> None:
    assert container(printed("--plugins=greeter"))["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": "512Mi"},
    }
    manifests = printed("--plugins=greeter", "--memory=1Gi", "--memory-limit=2Gi", "--cpu-limit=1.5")
    assert container(manifests)["resources"] == {
        "requests": {"cpu": "100m", "memory": "1Gi"},
        "limits": {"memory": "2Gi", "cpu": "1.5"},
    }


@behaviour("findings3/NO12")
def test_without_an_image_nothing_is_printed(ctrlhost: Any) -> None:
    result = ctrlhost("manifests", "--plugins=greeter")
    assert (result.returncode, result.stdout) == (2, "")
    error, hint = filter(None, result.stderr.splitlines())
    assert error.startswith("error: --image: missing")
    assert hint.startswith("hint: build one")
    assert ctrlhost("manifests", "--plugins=greeter", "--image=example.com/host:1").stderr == ""
    assert ctrlhost("manifests", "--plugins=greeter", "--uninstall").returncode == 0


@behaviour("findings3/NO12")
@pytest.mark.parametrize("command", ["check", "crds", "dev", "manifests", "run", "settings"])
def test_a_second_settings_file_is_refused(ctrlhost: Any, settings_file: Callable[[str], str], command: str) -> None:
    file = settings_file("[host]\ndrain_timeout = '1s'\n")
    result = ctrlhost(command, file, file)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--config is given 2 times; give it once" in result.stderr
    # The variable is one path, whatever characters it has.
    assert "is given" not in ctrlhost("settings", CTRLHOST_CONFIG="/no/file:/no/other").stderr
