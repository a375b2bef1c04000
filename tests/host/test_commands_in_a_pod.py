"""Commands that are run by `kubectl exec` in the generated pod: read-only root, its variables, no shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from ctrlhost_sandbox import Sandbox

from ctrlhost import Client
from tests.host.conftest import Distributions
from tests.support.host_process import HostProcess
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

PLUGIN = """
import ctrlhost

def reconcile(ctx, request):
    if request.name == "broken":
        raise KeyError("spec")

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    plugin.add_controller("maps", reconcile, ctrlhost.For("v1", "ConfigMap"))
"""
#: Runs a program with the file systems of the pod: its writable volume, a read-only root, no shell.
POD = """
mkdir -p /run/ctrlhost
mount -t tmpfs -o mode=0777 none /run/ctrlhost
mount -o remount,bind,ro /
for shell in /bin/sh /bin/bash /bin/dash; do test ! -e $shell || mount --bind /dev/null $shell; done
exec "$@"
"""
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-euc", POD, "sh"]


@pytest.fixture
def pod() -> list[str]:
    """The beginning of a command that becomes the one of the pod."""
    missing = shutil.which("unshare") is None or shutil.which("nsenter") is None
    if missing or subprocess.run([*UNSHARE, "/bin/true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets no process mount a file system for itself")
    return UNSHARE


@pytest.mark.behaviour("operations/OP83")
def test_commands_attach_inside_the_generated_pod(
    pod: list[str],
    ctrlhost: Callable[..., subprocess.CompletedProcess[str]],
    distributions: Distributions,
    sandbox: Sandbox,
) -> None:
    distributions.add("seen", PLUGIN)
    documents = yaml.safe_load_all(ctrlhost("manifests", "--plugins=seen", "--image=none").stdout)
    (deployment,) = (document for document in documents if document["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {"name": "run", "mountPath": "/run/ctrlhost"} in container["volumeMounts"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    # Ports that are free here.
    arguments = [re.sub(r":\d+$", ":0", argument) for argument in container["args"][1:]]
    environment = {
        "PYTHONPATH": f"{distributions.folder}{os.pathsep}{Path(__file__).parents[2]}",
        "KUBECONFIG": str(sandbox.kubeconfig),
        **variables,
    }
    client = Client.load(sandbox.kubeconfig)
    client.create(config_map("broken"))
    client.close()
    with HostProcess(*arguments, environment=environment | {"PATH": os.environ["PATH"]}, prefix=pod) as host:
        socket = host.line("local socket at ")["msg"].removeprefix("local socket at ")
        assert re.fullmatch(r"/run/ctrlhost/ctrlhost/\d+\.sock", socket)
        host.line("reconcile failed")
        enter = ["nsenter", "--preserve-credentials", "--user", "--mount", f"--target={host.pid}"]

        def execute(*arguments: str, program: str = sys.executable) -> subprocess.CompletedProcess[str]:
            """Run a program as `kubectl exec` does: in the file systems of the pod, with its variables."""
            command = [*enter, program, *(("-m", "ctrlhost") if program == sys.executable else ()), *arguments]
            return subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=60, check=False, cwd="/"
            )

        assert execute("-c", "true", program="/bin/sh").returncode != 0
        assert execute("/run-only", program="/bin/mkdir").returncode != 0

        def explained() -> list[str]:
            """Return the explanation of the key while it waits; between two runs it has another one."""
            done = execute("explain-key", "seen/maps", "default/broken")
            assert done.returncode == 0, done.stderr
            return done.stdout.splitlines() if "  verdict    backing off: " in done.stdout else []

        lines = eventually(explained, pause=0.1)
        assert lines[0] == "seen/maps default/broken"
        assert lines[2].strip().startswith("last error: KeyError: 'spec' (test_seen.py:")
        failing = execute("queue", "seen/maps", "--failing")
        assert any(line.startswith("default/broken ") for line in failing.stdout.splitlines())
        top = execute("top")
        assert (top.returncode, top.stderr) == (0, "")
        assert any(line.startswith("seen/maps ") for line in top.stdout.splitlines())
        unknown = execute("explain-key", "seen/map", "a")
        assert unknown.returncode == 2
        assert "did you mean `seen/maps`?" in unknown.stderr
