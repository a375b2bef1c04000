"""Five incidents that an operator is called for, each a running host: `python -m tests.support.incidents NAME`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import Client, For, Request
from ctrlhost.testing.fault_proxy import FaultProxy
from ctrlhost.testing.host import HostUnderTest
from tests.support.elections import hold_lease
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually

#: The keys of both controllers of the shop, and those of them that fail.
ORDERS, UNPRICED, INVOICES, UNPAID = 1200, 771, 800, 458
PATIENCE = 120.0
_LATER = {"base_delay": "10m", "max_delay": "10m"}
_SETTINGS: dict[str, Any] = {
    "listen": "127.0.0.1:0",
    "controllers": {"shop/order": _LATER, "shop/invoice": _LATER},
    "start_timeout": 0.0,
}


#: In a file of its own, as errors have the places of a plugin's files.
_ORDERS = """
\"\"\"What a shop does with its orders.\"\"\"

def order(ctx, request):
    obj = ctx.get(request)
    if obj is not None and obj.get_path("data", "price", default=None) is None:
        ctx.events.warning(obj, "NoPrice", f"no price for {request.name}")
        raise ValueError(f"no price for {request.name}")

def invoice(ctx, request):
    obj = ctx.get(request)
    if obj is not None:
        account = obj.to_dict().get("data", {})["account"]
"""
_folder = TemporaryDirectory(prefix="plugins-")


@cache
def _orders() -> Any:
    """Return the module with the reconcilers that fail."""
    package = Path(_folder.name, "shop")
    package.mkdir()
    (package / "__init__.py").touch()
    file = package / "orders.py"
    file.write_text(_ORDERS.lstrip("\n"), encoding="utf-8")
    spec = spec_from_file_location("shop.orders", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _quiet(_ctx: ctrlhost.Context, _request: Request) -> None:
    """Do nothing."""


def _of(kind: str) -> For:
    return For("v1", "ConfigMap", label_selector=f"kind={kind}")


def shop() -> list[Any]:
    """Return the plugin `shop`, whose controllers fail, and two that are well."""

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("delivery", _quiet, _of("delivery"))
        plugin.add_controller("order", _orders().order, _of("order"))
        plugin.add_controller("invoice", _orders().invoice, _of("invoice"))

    def calm(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller(plugin.name, _quiet, _of(plugin.name))

    return [plugin_of(calm, "dns"), plugin_of(setup, "shop"), plugin_of(calm, "backup")]


def _create(host: HostUnderTest, kind: str, count: int, failing: int, **data: str) -> None:
    for number in range(count):
        content = {} if number < failing else data
        host.client.create(config_map(f"{kind}-{number}", labels={"kind": kind}, **content))


def _fails(host: HostUnderTest, keys: int) -> None:
    def failing() -> int:
        return sum(len(controller.history.failing) for controller in host.controllers.values())

    eventually(lambda: failing() == keys, PATIENCE, f"{keys} failing keys")
    host.run_until_idle(PATIENCE)


@contextmanager
def _running(server: Any, **options: Any) -> Iterator[HostUnderTest]:
    host = HostUnderTest(server, tuple(shop()), **{**_SETTINGS, **options})
    try:
        yield host.start()
    finally:
        host.stop()


@contextmanager
def two_causes() -> Iterator[HostUnderTest]:
    """1,229 of 2,000 keys of two controllers fail for two causes."""
    with Sandbox() as server, _running(server) as host:
        _create(host, "order", ORDERS, UNPRICED, price="1")
        _create(host, "invoice", INVOICES, UNPAID, account="a")
        _fails(host, UNPRICED + UNPAID)
        yield host


@contextmanager
def poisoned_key() -> Iterator[HostUnderTest]:
    """One of 40 keys fails."""
    with Sandbox() as server, _running(server) as host:
        _create(host, "order", 40, 1, price="1")
        _fails(host, 1)
        yield host


@contextmanager
def missing_rights() -> Iterator[HostUnderTest]:
    """The account of the host has no rights at all."""
    with Sandbox(rbac=True) as server:
        metadata = {"name": "powerless", "namespace": "default"}
        with closing(Client.load(server.kubeconfig)) as client:
            client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        account = SimpleNamespace(kubeconfig=server.kubeconfig_for(service_account="default/powerless"))
        with _running(server, through=account) as host:
            eventually(lambda: all(plugin.missing_rights for plugin in host.host.plugins), PATIENCE, "missing rights")
            yield host


@contextmanager
def slow_server() -> Iterator[HostUnderTest]:
    """Each answer of the API server takes two seconds."""
    with Sandbox() as server, FaultProxy(server) as proxy, _running(server, through=proxy) as host:
        proxy.delay(2.0)
        reader = host.host.inspection.reports.reader

        def is_slow() -> bool:
            assert host.host.client is not None
            host.host.client.find("v1", "ConfigMap", "any", "default")
            mean = reader.read().apiserver.seconds_per_request
            return mean is not None and mean > 1.5

        eventually(is_slow, PATIENCE, "a slow server")
        yield host


@contextmanager
def standby() -> Iterator[HostUnderTest]:
    """Another replica leads."""
    with Sandbox() as server:
        with _running(server, listen="") as first:
            hold_lease(first.client, holder="ctrlhost-7d9f8b6c5d-x2x7q_0b9e")
        with _running(server, leader_elect=True) as host:
            leadership = host.host.leadership
            assert leadership is not None
            eventually(lambda: leadership.leases()[0].holder, PATIENCE, "a holder")
            yield host


INCIDENTS: dict[str, Callable[[], Any]] = {
    "two-causes": two_causes,
    "poisoned-key": poisoned_key,
    "missing-rights": missing_rights,
    "slow-server": slow_server,
    "standby": standby,
}


def url_of(host: HostUnderTest) -> str:
    address = host.host.address or ""
    return address if address.startswith("http") else f"http://{address}"


if __name__ == "__main__":
    with ExitStack() as stack:
        print(url_of(stack.enter_context(INCIDENTS[sys.argv[1]]())), flush=True)
        time.sleep(3600)
