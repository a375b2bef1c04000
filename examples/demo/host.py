"""`ctrlhost run` with all bundled plugins, on the sandbox."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from examples.demo.kubectl import LIMIT, fail, show

PLUGINS = ("hostname", "naming", "ingress-status", "bitcoin")
# The sandbox also creates the pods of StatefulSets; a toy kubelet runs them as daemons.
RUN = ["run", "--plugins", ",".join(PLUGINS), "--sandbox", "--sandbox-controllers", "gc,namespace,statefulset"]
SETTINGS = [
    "hostname.rest-address=127.0.0.1",
    "hostname.rest-port=0",
    "naming.diff_grace=0s",
    "ingress-status.address-holdoff=0s",
]


class Host:
    """A `ctrlhost run` and its log."""

    def __init__(self) -> None:
        """Start it and wait until the sandbox can be used and the plugins run."""
        began = time.monotonic()
        options = [part for setting in SETTINGS for part in ("--set", setting)]
        command = [sys.executable, "-m", "ctrlhost", *RUN, "--listen", "127.0.0.1:0", *options]
        print("$ ctrlhost", *RUN, flush=True)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._lines: list[str] = []
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        assert self.process.stdout is not None
        self.kubeconfig = self.process.stdout.readline().removeprefix("kubeconfig: ").strip()
        self.address = self.wait_for(r'"listening on (http://[\d.:]+)"')
        for plugin in PLUGINS:
            self.wait_for(rf'"(plugin {plugin} running)"')
        print(f"  ready after {time.monotonic() - began:.1f} s, {self._resident():.0f} MB resident\n", flush=True)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_for_message(self, pattern: str) -> str:
        """Wait for a controller's message that the pattern matches, and return it."""
        line = self.wait_for(rf"^(.*{pattern}.*)$")
        message: str = json.loads(line)["msg"]
        return message

    def _resident(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status")
        match = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
        return int(match[1]) / 1024 if match else 0.0

    def wait_for(self, pattern: str) -> str:
        """Wait for a line of the log, and return the pattern's first group."""

        def look() -> re.Match[str] | None:
            return next((hit for line in self._lines if (hit := re.search(pattern, line))), None)

        with self._news:
            self._news.wait_for(lambda: look() or self.process.poll() is not None, LIMIT)
            hit = look()
        return hit[1] if hit else fail(f"the host did not log {pattern!r}", "".join(self._lines[-20:]))

    def stop(self) -> int:
        """Stop it with SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)


def counters(host: Host) -> None:
    """Print the reconciles by controller, from the metrics."""
    with urllib.request.urlopen(f"{host.address}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    counted: dict[str, str] = {}
    for controller, result, count in re.findall(
        r'controller_runtime_reconcile_total\{controller="([^"]+)",result="([^"]+)"\} (\d+)', text
    ):
        if int(count):
            counted[controller] = f"{counted.get(controller, '')} {count} {result}".strip()
    print(f"── reconciles, from {host.address}/metrics\n")
    show(counted)
