"""A host with much to look at: plugins and keys in each state, names and messages of every length."""

from __future__ import annotations

import threading
from typing import Any, Self
from urllib.parse import quote, urlencode

from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import For, Request, Result, TerminalError
from ctrlhost.testing.host import HostUnderTest
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

#: As long as names of objects often are.
LONG = "a-deployment-whose-name-nobody-wanted-to-shorten-7d9f8b6c5d-x2x7q"
#: Different selections, so as many informers.
GROUPS = 20
#: Of each controller.
WORKERS = 2
_MESSAGE = "the address 203.0.113.7 is taken by `default/other` and https://example.com/a/very/long/path/of/nothing?a=1"


class PagesRig:
    """A running host with this many controllers, most of them in the plugin `shown`, and its sandbox."""

    def __init__(self, controllers: int, listen: str = "127.0.0.1:0", sandbox: Sandbox | None = None) -> None:
        """Start both; a given sandbox stays the caller's."""
        self.controllers = controllers
        self._released = threading.Event()
        self._own = Sandbox() if sandbox is None else None
        if self._own is not None:
            self._own.start()
        self.sandbox = self._own or sandbox
        self.host = HostUnderTest(
            self.sandbox,
            tuple(self._plugins()),
            listen=listen,
            supervision={"disabled": {"enabled": False}} if controllers else {},
        ).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._released.set()
        self.host.stop()
        if self._own is not None:
            self._own.stop()

    @property
    def url(self) -> str:
        address: str = self.host.host.address
        return address if address.startswith("http") else f"http://{address}"

    def _plugins(self) -> list[Any]:
        if not self.controllers:
            return [plugin_of(lambda _plugin: None, "shown")]

        def setup(plugin: ctrlhost.PluginContext) -> None:
            for number in range(self.controllers):
                source = For("v1", "ConfigMap", label_selector=f"group=g{number % GROUPS}")
                plugin.add_controller(f"controller-{number:02}", self._reconcile, source, workers=WORKERS)

        def waiting(plugin: ctrlhost.PluginContext) -> None:
            plugin.add_controller("widgets", self._reconcile, For("example.com/v1", "Widget"))

        def broken(_plugin: ctrlhost.PluginContext) -> None:
            raise ctrlhost.PluginLoadError("broken", "the setting `address` is missing")

        return [
            plugin_of(setup, "shown"),
            plugin_of(waiting, "waiting-for-a-kind"),
            plugin_of(broken, "broken"),
            plugin_of(lambda _plugin: None, "disabled"),
        ]

    def _reconcile(self, ctx: ctrlhost.Context, request: Request) -> Result | None:
        match request.name.partition("-")[0]:
            case "failing":
                raise ValueError(_MESSAGE)
            case "terminal":
                raise TerminalError("the name is taken")
            case "slow":
                self._released.wait()
            case "later":
                return Result(requeue_after=600)
            case "writing" if not request.name.endswith("-copy"):
                copy = config_map(f"{request.name}-copy")
                if ctx.client.find("v1", "ConfigMap", f"{request.name}-copy", request.namespace) is None:
                    ctx.client.create(copy)
        return None

    def create(self, name: str, group: int = 0) -> str:
        """Create an object for the controllers of a group, and return its key."""
        self.host.client.create(config_map(name, labels={"group": f"g{group}"}))
        return f"default/{name}"

    def populate(self) -> None:
        """Bring keys into each state, and wait until they are."""
        for group in range(min(self.controllers, 4)):
            for kind in ("plain", "failing", "terminal", "slow", "later", "writing"):
                self.create(f"{kind}-{group}-{LONG}" if group % 2 else f"{kind}-{group}", group)
        watched = [controller for name, controller in self.host.controllers.items() if name.startswith("shown/")]
        busy = [controller for number, controller in enumerate(watched) if number % GROUPS < 4]
        eventually(lambda: all(controller.history.retrying for controller in busy), 60, "a failure of each controller")
        eventually(
            lambda: all(controller.queue.page("processing", 0).total for controller in busy),
            60,
            "a run of each controller",
        )

    def pages(self) -> dict[str, str]:
        """Return the addresses of one page of each kind, by name."""
        paths = {"index": "/", "plugin": "/status/plugins/shown"}
        if self.controllers:
            name = "shown/controller-01"
            paths |= {
                "plugin-waiting": "/status/plugins/waiting-for-a-kind",
                "plugin-failed": "/status/plugins/broken",
                "controller": f"/status/controllers/{name}",
                "key-failing": self.key_page(name, f"default/failing-1-{LONG}"),
                "key-unknown": self.key_page(name, "default/nothing"),
            }
        return {name: self.url + path for name, path in paths.items()}

    def key_page(self, controller: str, key: str) -> str:
        return f"/status/keys/{quote(controller)}?{urlencode({'key': key})}"
