"""A host process with a plugin `good`, and a plugin `bad` in a process of its own that does what a ConfigMap says."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from ctrlhost import Client
from tests.support.plugin_modules import config_map
from tests.support.processes import Found, children_of

if TYPE_CHECKING:
    from ctrlhost_sandbox import Sandbox

    from tests.support.host_process import HostProcess

#: Logs each ConfigMap, and shows on a page which modules of plugins its process has.
GOOD = """
    import json, os, sys
    import ctrlhost

    async def modules(scope, receive, send):
        names = [name for name in sys.modules if name.startswith("test_")]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps([os.getpid(), names]).encode()})

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("all", reconcile, ctrlhost.For("v1", "ConfigMap"))
        plugin.add_page("/modules", modules)

    def reconcile(ctx, request):
        ctx.log.info("good saw %s", request.name)
"""

#: Logs each ConfigMap with its process, and then does what the ConfigMap says to that process.
BAD = """
    import ctypes, json, os, resource, signal, threading
    import ctrlhost
    from ctrlhost import _core

    kept = []

    def segv():
        ctypes.string_at(0)

    def kill():
        os.kill(os.getpid(), signal.SIGKILL)

    def exit():
        os._exit(0)

    def abort():
        # The Rust core aborts when it cannot have the memory for an object.
        text = json.dumps({"metadata": {"name": "x"}, "data": {"a": "x" * (64 << 20)}}).encode()
        with open("/proc/self/statm") as statm:
            limit = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + (1 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        _core.Object(text)

    def hold():
        # A call of C code that keeps the interpreter lock.
        ctypes.PyDLL(None).sleep(600)

    def stop():
        os.kill(os.getpid(), signal.SIGSTOP)

    def rss():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def grow(megabytes):
        while rss() < megabytes:
            kept.append(b"x" * 1_000_000)
            threading.Event().wait(0.02)

    def jump(megabytes):
        kept.append(b"x" * int((megabytes - rss()) * 1e6))
        threading.Event().wait(600)

    @ctrlhost.hookimpl
    def ctrlhost_stopping(plugin):
        plugin.log.info("bad stops")

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("all", reconcile, ctrlhost.For("v1", "ConfigMap"))

    def reconcile(ctx, request):
        ctx.log.info("bad saw %s in process %d", request.name, os.getpid())
        config_map = ctx.get(request)
        data = config_map.get("data") if config_map is not None else None
        if data and data.get("process") == str(os.getpid()):
            name, *arguments = data["do"].split()
            globals()[name](*map(float, arguments))
            ctx.log.info("bad did %s", request.name)
"""


class IsolatedHost:
    """A host with `good` and the isolated `bad`; the test is the user of its API server."""

    def __init__(self, process: HostProcess, sandbox: Sandbox) -> None:
        self.process = process
        self.client = Client.load(sandbox.kubeconfig)
        self._numbers = itertools.count()

    def children(self) -> list[Found]:
        """Return the processes of isolated plugins, zombies too."""
        return [child for child in children_of(self.process.pid) if "ctrlhost.host.fork_server" not in child.command]

    def running(self, *, restarts: int = 0) -> int:
        """Wait until `bad` runs after so many restarts; return its process."""
        before = 0
        if restarts:
            line = self.process.line(f"plugin bad restarts: {restarts} of")
            before = self.process.lines.index(line)
        self.process.line("plugin bad running", after=before)
        (child,) = (process.pid for process in self.children())
        return child

    def lines(self, *texts: str) -> list[int]:
        """Return the numbers of the log lines that contain each of these texts."""
        numbered = enumerate(self.process.lines)
        return [number for number, line in numbered if all(text in line["msg"] for text in texts)]

    def do(self, what: str, child: int) -> str:
        """Ask the process of `bad` to do something; return the name of the ConfigMap that says so."""
        name = f"{what.split()[0]}-{next(self._numbers)}"
        self.client.create({**config_map(name), "data": {"do": what, "process": str(child)}})
        return name

    def good_goes_on(self) -> None:
        """Check that an event reaches the reconciler of `good`."""
        name = f"event-{next(self._numbers)}"
        self.client.create(config_map(name))
        self.process.line(f"good saw {name}")

    def restarts(self, reason: str) -> float:
        return self.process.metric("ctrlhost_plugin_restarts_total", plugin="bad", reason=reason) or 0.0

    def reads(self, resource: str) -> dict[str, float]:
        """Return how many lists and watches of a resource the API server had."""
        body: Any = self.client.transport.request("GET", "/metrics").body
        families = text_string_to_metric_families(bytes(body).decode())
        samples = [
            sample for family in families for sample in family.samples if sample.name == "apiserver_request_total"
        ]
        seen = {"LIST": 0.0, "WATCH": 0.0}
        for sample in samples:
            if sample.labels["resource"] == resource and sample.labels["verb"] in seen:
                seen[sample.labels["verb"]] += sample.value
        return seen
