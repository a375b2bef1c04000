"""kubectl for a cluster without a real kubelet: `python -m tests.support.toy_pods_kubectl WORDS…`.

`exec`, `logs` and `port-forward`, which need a kubelet, act on the process of a pod of `HostKubelet`, in the folder
$TOY_PODS. Everything else is done by the kubectl that is built with the real control plane.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.control_plane import BINARY

_TAKEN_OVER = ("exec", "logs", "port-forward")
_NAMESPACE = ("--namespace", "-n")


def main(words: list[str]) -> int:
    """Run a command."""
    before = [place for place, word in enumerate(words) if word[:1] != "-" and words[place - 1] not in _NAMESPACE]
    verb = words[before[0]] if before else ""
    if verb not in _TAKEN_OVER:
        os.execv(BINARY, [str(BINARY), "kubectl", *words])
    del words[before[0]]
    parser = argparse.ArgumentParser(prog=f"kubectl {verb}")
    parser.add_argument(*_NAMESPACE, default="default")
    parser.add_argument("target")
    if verb == "exec":
        split = words.index("--")
        options = parser.parse_args(words[:split])
        return _exec(_folder(options), words[split + 1 :])
    if verb == "logs":
        parser.add_argument("--tail", type=int, default=-1)
        options = parser.parse_args(words)
        lines = (_folder(options) / "log").read_text().splitlines()
        print("\n".join(lines if options.tail < 0 else lines[-options.tail :]))
        return 0
    parser.add_argument("ports", nargs="+")
    options = parser.parse_args(words)
    asyncio.run(_forward(_settings(_folder(options))["address"], options.ports))
    return 0


def _folder(options: Any) -> Path:
    """Return the folder of a pod, or of the first ready pod of a Deployment."""
    kind, _, name = options.target.rpartition("/")
    command = [BINARY, "kubectl", "get", "pods", "--namespace", options.namespace, "--output=json"]
    pods = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)["items"]
    for pod in pods:
        pod_name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            continue
        ready = {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", ())}.get(
            "Ready"
        ) == "True"
        of_deployment = re.fullmatch(rf"{re.escape(name)}-[a-z0-9]+-[a-z0-9]+", pod_name)
        if pod_name == name or (kind.startswith("deploy") and of_deployment and ready):
            return Path(os.environ["TOY_PODS"]) / pod_name
    raise SystemExit(f"error: no running pod of {options.target} in namespace {options.namespace}")


def _settings(folder: Path) -> Any:
    return json.loads((folder / "pod.json").read_text())


def _exec(folder: Path, command: list[str]) -> int:
    settings = _settings(folder)
    # The host is the first process of its pod.
    words = [word.replace("kill(1,", f"kill({settings['pid']},") for word in command]
    environment = settings["environment"] | {"PATH": os.environ["PATH"]}
    return subprocess.run(words, cwd=folder, env=environment, check=False).returncode


async def _forward(address: str, ports: list[str]) -> None:
    for port in ports:
        local, _, remote = port.rpartition(":")
        await asyncio.start_server(_Forwarder(address, int(remote)), "127.0.0.1", int(local or remote))
        print(f"Forwarding from 127.0.0.1:{local or remote} -> {remote}", flush=True)
    await asyncio.Event().wait()


class _Forwarder:
    """Connects a client to a port of the pod."""

    def __init__(self, address: str, port: int) -> None:
        self._address, self._port = address, port

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(self._address, self._port)
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        except OSError as error:
            print(f"error: forwarding port {self._port}: {error}", file=sys.stderr)
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
