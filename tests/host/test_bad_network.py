"""A plugin on a bad network; docs/how-to/faults.md shows these tests."""

from __future__ import annotations

from pathlib import Path

from ctrlhost.testing import Fault, HurriedClock
from tests.host import greeter
from tests.host.test_greeter import config_map

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "faults.md"


def test_everyone_is_greeted_in_a_storm(ctrlhost_host, faults, sandbox):
    proxy = faults(sandbox)
    host = ctrlhost_host(greeter, sandbox=sandbox, through=proxy, clock=HurriedClock())
    proxy.storm(rate=0.3)
    for number in range(20):
        host.client.create(config_map(f"m{number}", labels={"greet": "yes"}, data={"name": f"M{number}"}))
    host.wait_for(lambda: proxy.total > 50)
    proxy.calm()
    for number in range(20):
        host.wait_for(lambda name=f"m{number}-greeting": host.client.find("v1", "ConfigMap", name, "default"))


def test_a_network_outage_is_survived(ctrlhost_host, faults, sandbox):
    proxy = faults(sandbox)
    host = ctrlhost_host(greeter, sandbox=sandbox, through=proxy, clock=HurriedClock())
    proxy.cut()
    host.client.create(config_map("ann", labels={"greet": "yes"}, data={"name": "Ann"}))
    proxy.restore()
    proxy.next(Fault.cut_headers(), verb="apply")  # the write succeeds, but the plugin gets no answer
    host.wait_for(lambda: host.client.find("v1", "ConfigMap", "ann-greeting", "default"))


def test_the_page_shows_these_tests() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    begin = source.index("def test_everyone_is_greeted_in_a_storm")
    text = source[begin : source.index("\n\n\ndef test_the_page_shows")]
    assert text in PAGE.read_text(encoding="utf-8")
