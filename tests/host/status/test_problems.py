"""What the pages say is wrong, and what to type: rights, kinds, standbys; what they leave out when nothing is."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request
from ctrlhost.status.pages.text import NONE
from tests.support.incidents import missing_rights, poisoned_key, standby
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import controller
from tests.support.status import key_of, status_of
from tests.support.status_page import Element, Page, get, page_at
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

LISTEN = "127.0.0.1:0"
APPLY = "ctrlhost manifests --plugins=dns,shop,backup --image=IMAGE | kubectl apply --server-side -f -"


def quiet(_ctx: ctrlhost.Context, _request: Request) -> None:
    """Do nothing."""


def commands(page: Page) -> list[str]:
    return [code.text for code in page.root.all("code")]


def tab(page: Page) -> str:
    return next(page.root.all("title")).text


@behaviour("oncall/OC6")
def test_missing_rights_are_a_line_and_a_command_and_the_details_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    with missing_rights() as host:
        page = page_at(host)
        assert page.section("verdict")[0].text.endswith("6 rights missing for dns, shop, backup")
        assert tab(page).startswith("✖ ")
        assert "6 rights missing for dns, shop, backup · ctrlhost on " in tab(page)
        assert commands(page).count(APPLY) == len(commands(page)) == 1
        (card,) = page.section("problems")
        (details,) = card.all("details")
        assert "open" not in details.attributes
        rules = [rule.text for rule in details.children if isinstance(rule, Element) and rule.name == "div"]
        assert len(rules) == 6
        assert (
            'dns: {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]} to a ClusterRole'
            in rules
        )
        # Elsewhere the page says only how many there are.
        assert {row["Reason"] for row in page.rows("plugins")} == {"2 rights missing"}
        own = page_at(host, "/status/plugins/dns")
        assert own.section("problems")[0].text.startswith("dns is waiting since ")
        assert {row["State"] for row in own.rows("rights")} == {"✖ missing"}
        grants = f"`{APPLY}` grants its rights".encode()
        eventually(lambda: grants in get(host, "/readyz?verbose")[2])
        assert b"apiGroups" not in get(host, "/readyz?verbose")[2]
    for plugin in ("dns", "shop", "backup"):
        text = f"2 rights missing for {plugin}: run `{APPLY}`, with the options of the installation"
        assert len([record for record in caplog.records if record.getMessage().startswith(text)]) == 1
    # No rule is named again in a sentence.
    assert not [record for record in caplog.records if "apiGroups" in record.getMessage()]


@behaviour("oncall/OC6")
def test_a_missing_kind_is_a_line_with_the_command_that_shows_the_kinds(
    ctrlhost_host: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    plugin = controller(quiet, For("example.com/v1", "Missing"))
    host = ctrlhost_host(plugin, listen=LISTEN, start_timeout=0.0)
    host.wait_for(lambda: host.host.plugins[0].state == "waiting")
    page = page_at(host)
    assert page.section("verdict")[0].text == "▲ demo is waiting"
    (card,) = page.section("problems")
    assert card.text.startswith("demo waits since ")
    assert "Missing (example.com/v1): " in card.text
    assert commands(page) == ["kubectl api-resources"]
    reason = status_of(host)["plugins"][0]["reason"]
    assert len([record for record in caplog.records if reason in record.getMessage()]) == 1


@behaviour("oncall/OC7")
def test_a_standby_says_so_and_how_the_page_of_the_leader_is_reached() -> None:
    with standby() as host:
        page = page_at(host)
        leader = "ctrlhost-7d9f8b6c5d-x2x7q"
        text = f"standby: this replica does nothing; {leader}_0b9e leads"
        assert page.section("verdict")[0].text == f"{NONE} {text}"
        assert tab(page).startswith(f"{NONE} {text} · ")
        assert f"kubectl port-forward --namespace default pod/{leader} 8485" in commands(page)
        assert {row["State"] for row in page.rows("controllers")} == {f"{NONE} standby"}
        assert {row["Depth"] for row in page.rows("controllers")} == {"0"}
        assert page_at(host, "/status/controllers/shop/order").section("verdict")[0].text == f"{NONE} standby"


@behaviour("oncall/OC7")
def test_a_replica_that_leads_one_of_two_leases_is_no_standby(ctrlhost_host: Any) -> None:
    options = {"leader_elect": True, "leader_elect_plugins": ["two"], "listen": LISTEN}
    plugins = [controller(quiet, For("v1", "ConfigMap")), plugin_of(lambda _plugin: None, "two")]
    host = ctrlhost_host(*plugins, **options)
    host.wait_for(lambda: any(lease.mine for lease in host.host.leadership.leases()))
    assert "standby" not in page_at(host).section("verdict")[0].text


@behaviour("oncall/OC8")
def test_a_host_that_is_well_has_no_empty_tables(ctrlhost_host: Any) -> None:
    host = ctrlhost_host(controller(quiet, For("v1", "ConfigMap", label_selector="mine")), listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    for path in ("/", "/status/plugins/demo", "/status/controllers/demo/c", "/status/keys/demo/c?key=default/a"):
        page = page_at(host, path)
        assert page.status == 200
        for table in page.root.all("table"):
            (body,) = table.all("tbody")
            assert list(body.all("tr")), path
        assert "none" not in [cell.text for cell in page.root.all("td")]
    page = page_at(host)
    assert page.section("verdict")[0].text == "● ready: 1 controller, nothing fails"
    assert page.section("problems") == []
    assert [summary.text for summary in page.root.all("summary")] == [
        *("Plugins 1 running: demo", "Controllers 1 ok: demo/c", "Informers 1 current"),
    ]
    page = page_at(host, "/status/controllers/demo/c")
    assert [row.text for row in page.section("about")[:2]] == [
        "No key is failing, processing, queued or delayed.",
        "It has not run yet.",
    ]


@behaviour("oncall/OC8")
def test_a_page_that_does_not_exist_leads_back() -> None:
    with poisoned_key() as host:
        for path in ("/status/plugins/shp", "/status/controllers/shop/ordr", "/status/nothing"):
            page = page_at(host, path)
            assert page.status == 404
            assert page.section("facts")[-1].text == "Go back to the page of the host ."
            assert page.links[-1] == "/"


@behaviour("oncall/OC10")
def test_last_writes_have_the_plugin_and_key_of_events_and_no_renewals(ctrlhost_host: Any) -> None:
    def reconcile(ctx: ctrlhost.Context, request: Request) -> None:
        obj = ctx.get(request)
        if obj is not None:
            ctx.events.normal(obj, "Seen", "it was seen")

    plugin = controller(reconcile, For("v1", "ConfigMap", label_selector="mine"))
    host = ctrlhost_host(plugin, listen=LISTEN, leader_elect=True)
    host.wait_for(lambda: host.host.leadership.leases()[0].mine)
    host.client.create(config_map("ann", labels={"mine": "1"}))
    row = host.wait_for(
        lambda: next((row for row in page_at(host).rows("last-writes") if row["By"] == "demo"), None), 60
    )
    assert (row["Verb"], row["Object"], row["For the key"]) == ("create", "events.events.k8s.io default", "default/ann")
    (write,) = (write for write in status_of(host)["apiserver"]["last_writes"] if write["key"] == "default/ann")
    assert (write["controller"], write["reconcile_id"]) == ("demo", "")
    # The page of the plugin has it, too, and no link leads to a controller that there is not.
    page = page_at(host, "/status/plugins/demo")
    assert [row["For the key"] for row in page.rows("last-writes")] == ["default/ann"]
    assert not [link for link in page.links if link.startswith("/status/keys/demo?")]
    # The Lease was written, and counts, but is not among the last writes.
    counts = {entry["resource"] for entry in status_of(host)["apiserver"]["writes"]}
    assert "leases.coordination.k8s.io" in counts
    assert "leases.coordination.k8s.io" not in {row["Object"].split()[0] for row in page_at(host).rows("last-writes")}


@behaviour("oncall/OC4")
@pytest.mark.parametrize("reads", [None, "metadata"])
def test_the_page_of_a_key_has_the_conditions_of_its_object(ctrlhost_host: Any, reads: Any) -> None:
    host = ctrlhost_host(controller(quiet, For("v1", "Service", label_selector="mine", reads=reads)), listen=LISTEN)
    metadata = {"name": "web", "namespace": "default", "labels": {"mine": "1"}}
    spec = {"ports": [{"port": 80}]}
    host.client.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    since = "2026-11-23T15:00:00Z"
    condition = {"type": "Ready", "status": "False", "reason": "NoPort", "message": "80 is taken"}
    status = {"conditions": [condition | {"lastTransitionTime": since}]}
    host.client.patch("v1", "Service", "web", "default", {"status": status}, subresource="status")
    path = "/status/keys/demo/c?key=default/web"
    page = host.wait_for(lambda: (page := page_at(host, path)).rows("conditions") and page, 60)
    (row,) = page.rows("conditions")
    assert {name: row[name] for name in ("Condition", "Status", "Reason", "Message")} == {
        "Condition": "Ready",
        "Status": "False",
        "Reason": "NoPort",
        "Message": "80 is taken",
    }
    assert since in {time.attributes["datetime"] for time in page.root.all("time")}
    assert commands(page)[0] == "kubectl describe services web --namespace default"
    (shown,) = key_of(host, "demo/c", "default/web")["object"]["conditions"]
    assert shown == {**condition, "since": since}
