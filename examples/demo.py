"""`make demo`: hostname and naming on the sandbox, with example objects, and what came of them.

    python -m examples.demo [--keep]

Everything goes through the command line and the API server, as it would for you: the host is `ctrlhost run`, the
objects are the files in plugins/*/examples, and what is shown is read back from the server.
"""

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
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

import ctrlhost

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
LIMIT = 20.0
INGRESS = ("networking.k8s.io/v1", "Ingress")
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
RUN = ["run", "--plugins", "hostname,naming", "--sandbox", "--listen", "127.0.0.1:0"]
SETTINGS = ["hostname.rest-address=127.0.0.1", "hostname.rest-port=0", "naming.diff_grace=0s"]


class Host:
    """`ctrlhost run`, and what it says."""

    def __init__(self) -> None:
        """Start it and wait until the sandbox can be used and the plugins run."""
        began = time.monotonic()
        options = [part for setting in SETTINGS for part in ("--set", setting)]
        command = [sys.executable, "-m", "ctrlhost", *RUN, *options]
        print("$ ctrlhost", *RUN, flush=True)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._lines: list[str] = []
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        assert self.process.stdout is not None
        self.kubeconfig = self.process.stdout.readline().removeprefix("kubeconfig: ").strip()
        self.address = self.wait_for(r'"listening on (http://[\d.:]+)"')
        for plugin in ("hostname", "naming"):
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
        """Wait for a message of a controller that the pattern matches; the message."""
        line = self.wait_for(rf"^(.*{pattern}.*)$")
        message: str = json.loads(line)["msg"]
        return message

    def _resident(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status")
        found = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
        return int(found[1]) / 1024 if found else 0.0

    def wait_for(self, pattern: str) -> str:
        """Wait for a line of the log; give the pattern's first group."""

        def found() -> re.Match[str] | None:
            return next((hit for line in self._lines if (hit := re.search(pattern, line))), None)

        with self._news:
            self._news.wait_for(lambda: found() or self.process.poll() is not None, LIMIT)
            hit = found()
        return hit[1] if hit else fail(f"the host did not say {pattern!r}", "".join(self._lines[-20:]))

    def stop(self) -> int:
        """Stop it as an operator does, with SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)


def fail(what: str, detail: str = "") -> NoReturn:
    """Say what went wrong and end."""
    print(f"error: {what}\n{detail}", file=sys.stderr)
    raise SystemExit(1)


def documents(path: str) -> list[dict[str, Any]]:
    """Read the objects of an example file."""
    return [one for one in yaml.safe_load_all((ROOT / path).read_text(encoding="utf-8")) if one]


def apply(client: ctrlhost.Client, *paths: str) -> None:
    """Do what `kubectl apply -f` does."""
    for path in paths:
        print(f"$ kubectl apply -f {path}", flush=True)
        for one in documents(path):
            client.apply(one, field_manager="demo")


def wait(check: Callable[[], object], what: str) -> None:
    """Look at the server until it shows what the controllers should have done."""
    pause, end = threading.Event(), time.monotonic() + LIMIT
    while not check():
        if time.monotonic() > end:
            fail(f"not within {LIMIT:g} s: {what}")
        pause.wait(0.02)


def routes(client: ctrlhost.Client) -> dict[str, str]:
    """Give each hostname with the namespace and service that its Ingress leads to."""
    found = {}
    for ingress in client.list(*INGRESS):
        rule = ingress["spec"]["rules"][0]
        service = rule["http"]["paths"][0]["backend"]["service"]
        found[rule["host"]] = f"{ingress['metadata']['namespace'][:12]}…/{service['name']}:{service['port']['number']}"
    return found


def conditions(client: ctrlhost.Client, name: str) -> dict[str, str]:
    """Give the conditions of a CRD as `status, reason`."""
    crd = client.find(*CRD, name) or {}
    listed = crd.get("status", {}).get("conditions", [])
    return {one["type"]: f"{one['status']} ({one.get('reason', '')})" for one in listed}


def show(table: dict[str, str], indent: str = "    ") -> None:
    """Print a small table."""
    width = max([len(key) for key in table], default=0)
    for key, value in sorted(table.items()):
        print(f"{indent}{key:<{width}}  {value}")
    if not table:
        print(f"{indent}(none)")
    print(flush=True)


def hostnames(client: ctrlhost.Client) -> None:
    """Hostnames connected, swapped and released."""
    folder = "plugins/hostname/examples"
    print("── hostname: every declared hostname gets its Ingress\n")
    apply(client, f"{folder}/01-leases.yaml", f"{folder}/02-connect.yaml")
    wait(lambda: len(routes(client)) == 2, "two Ingresses")
    print("  connected:")
    before = routes(client)
    show(before)

    apply(client, f"{folder}/03-swap.yaml")
    was = before["shop.example.com"]
    wait(lambda: routes(client).get("shop.example.com", was) != was, "a swap")
    print("  swapped, shop.example.com now leads to another lease:")
    show(routes(client))

    for one in documents(f"{folder}/07-release-delete.yaml"):
        meta = one["metadata"]
        print(f"$ kubectl delete providerhost {meta['name']} -n {meta['namespace']}", flush=True)
        client.delete(one["apiVersion"], one["kind"], meta["name"], meta["namespace"])
    wait(lambda: len(routes(client)) == 1, "one Ingress gone")
    print("  released:")
    show(routes(client))


def names(client: ctrlhost.Client, host: Host) -> None:
    """A conflict of CRD names, reported with its owner, and resolved."""
    folder = "plugins/naming/examples"
    print("── naming: two CustomResourceDefinitions want the same short name\n")
    apply(client, f"{folder}/01-gadgets.yaml", f"{folder}/02-gauges-in-conflict.yaml")
    gauges = "gauges.shop.example.com"
    wait(lambda: conditions(client, gauges).get("NamesAccepted", "").startswith("False"), "a conflict")
    print("  the server says of gauges.shop.example.com:")
    show(conditions(client, gauges))
    print("  the plugin says who has the name:")
    print(f"    {host.wait_for_message('conflict: .*held by')}\n", flush=True)

    apply(client, f"{folder}/03-gauges-resolved.yaml")
    wait(lambda: conditions(client, gauges).get("Established", "").startswith("True"), "its end")
    print("  resolved:")
    show(conditions(client, gauges))


def counters(host: Host) -> None:
    """Show what a dashboard would: reconciles by controller."""
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


def main() -> None:
    """Run the demo; with --keep leave the host running until Ctrl-C."""
    host = Host()
    try:
        client = ctrlhost.Client.load(host.kubeconfig)
        hostnames(client)
        names(client, host)
        counters(host)
        if "--keep" in sys.argv:
            print("The host and its sandbox keep running until Ctrl-C. In another terminal:")
            print(f"  export KUBECONFIG={host.kubeconfig}\n  kubectl get ingress -A")
            print(f"  curl {host.address}/readyz?verbose", flush=True)
            host.process.wait()
            return
    except KeyboardInterrupt:
        pass
    finally:
        code = host.stop() if host.process.poll() is None else host.process.returncode
    print(f"stopped with exit code {code}. To go on by hand: make demo KEEP=1", flush=True)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
