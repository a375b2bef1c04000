"""A toy kubelet for Deployments of hosts: each pod is a `ctrlhost run` at a loopback address of its own.

The host runs with the arguments, the environment and the files of the pod, and as its ServiceAccount. It runs as the
user of the tests, and in the folder of the pod, whose name its output and settings for `toy_pods_kubectl` have.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from examples.bitcoind.daemon import Addresses
from examples.bitcoind.kubelet import ToyKubelet
from examples.bitcoind.pod import ToyPod
from tests.support.programs import ROOT

if TYPE_CHECKING:
    from tests.support.control_plane import KubeApiserver

#: The address in an argument: all addresses of the pod, or its loopback.
_ADDRESS = re.compile(r"=(?:127\.0\.0\.1|\[::\])?(:\d+)?$")


class HostKubelet(ToyKubelet):
    """Runs the pods of one namespace; their folders are in `folder`."""

    def __init__(self, server: KubeApiserver, namespace: str, folder: Path) -> None:
        super().__init__(server.client, namespace, _start_nothing, Addresses())
        self.server, self.folder = server, folder
        self.pod_type = HostPod

    def log_of(self, pod: str) -> str:
        """Return what a pod has written so far."""
        return (self.folder / pod / "log").read_text()


def _start_nothing(*_: Any, **__: Any) -> Any:
    raise AssertionError("pods of hosts start by themselves")


class HostPod(ToyPod):
    """A pod with one container, whose program is `ctrlhost`."""

    _kubelet: HostKubelet

    @property
    def folder(self) -> Path:
        return self._kubelet.folder / self.name

    def _start_process(self) -> None:
        container = self._pod["spec"]["containers"][0]
        environment = self._mounted_environment(container)
        arguments = [self._in_folder(argument, container) for argument in container["args"]]
        process = _HostInPod(self.folder, [self._at_address(argument) for argument in arguments], environment)
        settings = {"pid": process.pid, "address": self.address, "environment": environment}
        (self.folder / "pod.json").write_text(json.dumps(settings))
        self._daemon = process
        self._ended_at = None
        self._report(ready=False)

    def _probe(self) -> bool:
        container = self._pod["spec"]["containers"][0]
        probe = container["readinessProbe"]["httpGet"]
        (port,) = (entry["containerPort"] for entry in container["ports"] if entry["name"] == probe["port"])
        try:
            with urllib.request.urlopen(f"http://{self.address}:{port}{probe['path']}", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _at_address(self, argument: str) -> str:
        """Return the argument for this machine: pods have a network of their own, and here only an address."""
        if not argument.startswith("--set=host.listen") and "address=" not in argument:
            return argument
        return _ADDRESS.sub(lambda match: f"={self.address}{match[1] or ''}", argument)

    def _in_folder(self, text: str, container: dict[str, Any]) -> str:
        """Replace the paths of mounted volumes in a text by those below the folder of the pod."""
        for mount in container.get("volumeMounts", ()):
            text = text.replace(mount["mountPath"], f"{self.folder}{mount['mountPath']}")
        return text

    def _mounted_environment(self, container: dict[str, Any]) -> dict[str, str]:
        """Make the volumes and a kubeconfig of the account, and return the environment."""
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes", ())}
        for mount in container.get("volumeMounts", ()):
            path = Path(f"{self.folder}{mount['mountPath']}")
            path.mkdir(parents=True, exist_ok=True)
            if source := volumes[mount["name"]].get("configMap"):
                config_map = self._kubelet.client.get("v1", "ConfigMap", source["name"], self._kubelet.namespace)
                for name, content in config_map["data"].items():
                    (path / name).write_text(content)
        kubeconfig = self.folder / "kubeconfig"
        self.folder.mkdir(parents=True, exist_ok=True)
        kubeconfig.write_text(yaml.safe_dump(self._kubeconfig()))
        variables = {
            variable["name"]: self._in_folder(variable["value"], container) for variable in container.get("env", ())
        }
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "HOME": str(self.folder),
            "HOSTNAME": self.name,
            "KUBECONFIG": str(kubeconfig),
            **variables,
        }

    def _kubeconfig(self) -> Any:
        account, namespace = self._pod["spec"]["serviceAccountName"], self._kubelet.namespace
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self._kubelet.client.transport.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
            body=json.dumps(request).encode(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status == 201, answer.body
        config = yaml.safe_load(self._kubelet.server.kubeconfig.read_text())
        for user in config["users"]:
            user["user"] = {"token": json.loads(answer.body)["status"]["token"]}
        for context in config["contexts"]:
            context["context"]["namespace"] = namespace
        return config


class _HostInPod:
    """The process of a pod."""

    host = ""
    target: Any = None

    def __init__(self, folder: Path, arguments: list[str], environment: dict[str, str]) -> None:
        self._log = folder / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ctrlhost", *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def hang(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        # Its threads stop one after the other.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)
