"""Errors that end in a line of a library are known by the line of the plugin that called it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ctrlhost import Client
from tests.host.conftest import Distributions
from tests.support import fork_server
from tests.support.host_process import HostProcess
from tests.support.objects import config_map
from tests.support.status import page_of, status_of
from tests.support.status_page import page_at
from tests.support.waiting import eventually

CONTROLLER = """
import asyncio
import json
import ctrlhost
import remote.client

async def reconcile(ctx, owner):
    if owner.name == "standard":
        json.loads("{")
    if owner.name == "price":
        remote.client.ask("price")
    remote.client.ask("stock")
"""
SHOP = """
import ctrlhost
from shop.controller import reconcile

plugin = ctrlhost.Plugin()
plugin.controller(ctrlhost.For("v1", "ConfigMap", label_selector="mine"), name="c")(reconcile)
"""
REMOTE = """
def ask(word):
    raise ConnectionError("no answer")
"""
SETTINGS = """
[controllers."shop/c"]
base_delay = "10m"
max_delay = "10m"
"""
#: The places of the three objects.
PLACES = {
    "default/price": "shop/controller.py:11, calling remote/client.py:3",
    "default/standard": "shop/controller.py:9, calling json/decoder.py:",
    "default/stock": "shop/controller.py:12, calling remote/client.py:3",
}


@pytest.fixture
def shop() -> Iterator[tuple[HostProcess, Distributions, str]]:
    """Run an installed plugin, of a package that calls an installed library; return its runtime directory, too."""
    with ExitStack() as stack:
        # Paths of pytest can be longer than the address of a socket.
        runtime = Path(stack.enter_context(TemporaryDirectory(prefix="place-")))
        site = runtime / "site-packages"
        site.mkdir()
        distributions = Distributions(site)
        distributions.add("shop", "", module="shop", attribute="plugin")
        (site / "shop.py").unlink()
        for package, module, text in (("shop", "controller", CONTROLLER), ("remote", "client", REMOTE)):
            (site / package).mkdir()
            (site / package / "__init__.py").write_text(SHOP if package == "shop" else "")
            (site / package / f"{module}.py").write_text(text)
        (runtime / "settings.toml").write_text(SETTINGS)
        arguments = ["--sandbox", "--plugins=shop", f"--config={runtime}/settings.toml"]
        environment = distributions.environment(XDG_RUNTIME_DIR=str(runtime))
        host = stack.enter_context(HostProcess(*arguments, environment=environment))
        host.line("plugin shop running")
        yield host, distributions, str(runtime)


@pytest.mark.behaviour("findings3/NA10")
@pytest.mark.behaviour("findings3/NO4")
def test_causes_that_end_in_one_line_of_a_library_stay_apart(
    shop: tuple[HostProcess, Distributions, str],
) -> None:
    host, distributions, runtime = shop
    client = Client.load(host.kubeconfig)
    for name in ("price", "standard", "stock"):
        client.create(config_map(name, labels={"mine": "1"}))
    eventually(lambda: page_of(host, "shop/c", part="failing")["total"] == len(PLACES))
    lines = {line["key"]: line for line in host.lines if line["msg"].startswith("reconcile failed: ")}
    assert lines.keys() == PLACES.keys()
    assert all(line["place"].startswith(PLACES[key]) for key, line in lines.items())
    assert all('shop/controller.py", line ' in line["exception"] for line in lines.values())
    failing: Any = page_of(host, "shop/c", part="failing")["items"]
    assert all(item["place"].startswith(PLACES[item["key"]]) for item in failing)
    rows = {row["Key"]: row["Error"] for row in page_at(host).rows("errors")}
    assert rows.keys() == PLACES.keys()
    assert all(f"({PLACES[key]}" in row for key, row in rows.items())
    listed = fork_server.run(
        "queue", "shop/c", "--failing", env=distributions.environment(XDG_RUNTIME_DIR=runtime), timeout=120
    )
    assert all(f"({place}" in listed.stdout for place in PLACES.values()), listed
    # When over half of ten or more keys fail, the plugin is degraded, which names the place of the worst cause.
    for number in range(10):
        client.create(config_map(f"more-{number}", labels={"mine": "1"}))
    (degraded,) = eventually(lambda: status_of(host)["plugins"][0]["degraded"])
    cause = "ConnectionError at shop/controller.py:12: no answer"
    assert degraded["message"] == f"shop/c: 13 of 13 keys fail, 3 causes; 11 keys: {cause}"
