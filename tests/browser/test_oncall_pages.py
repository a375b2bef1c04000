"""What the pages say in an incident: the first screen, the order, phones, plots, and what changes while one looks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ctrlhost.status.pages.text import NONE
from tests.browser.page_checks import CHECKS, defects
from tests.support.browser import Browser, Window
from tests.support.incidents import INCIDENTS, INVOICES, ORDERS, UNPAID, UNPRICED, two_causes, url_of
from tests.support.plugin_modules import config_map
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

DESKTOP, PHONE = Window(1400), Window(390, height=844)
#: Pixels of the first screen in which the cause has to be.
FIRST = 500
#: The screens of a phone that the overview may take.
SCREENS = 3
PATIENCE = 60
CONTROLLER, PLUGIN = "/status/controllers/shop/order", "/status/plugins/shop"
KEY = "/status/keys/shop/order?key=default/order-17"
PATHS = {"overview": "/", "plugin": PLUGIN, "controller": CONTROLLER, "key": KEY}

#: The texts that end in the first pixels, in their order.
TOP = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
const texts = [];
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  range.selectNodeContents(walker.currentNode);
  const box = range.getBoundingClientRect();
  const shown = box.height && box.left >= 0 && element.checkVisibility();
  if (shown && box.bottom <= arguments[0]) texts.push(range.toString());
}
return texts.join("").replace(/\\s+/g, " ");
"""
#: The sections in their order, those that are open.
SECTIONS = "return [...document.querySelectorAll('main > section')].map((section) => section.id)"
#: The shift of what is on the screen since the page began, as browsers measure it.
SHIFT = """
return new Promise((done) => {
  let sum = 0;
  const add = (entries) => entries.getEntries().forEach((entry) => (sum += entry.value));
  new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(sum))));
});
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Run a host with two causes, and return its address."""
    with two_causes() as host:
        yield url_of(host)


def show(browser: Browser, url: str, window: Window) -> None:
    browser.show(url, window)
    eventually(lambda: browser.text("#live") == "live", PATIENCE, "an answer", pause=0.05)


@behaviour("oncall/OC1")
@pytest.mark.parametrize("window", [DESKTOP, PHONE], ids=str)
def test_the_first_screen_has_what_is_broken_since_when_and_the_causes(
    browser: Browser, url: str, window: Window
) -> None:
    show(browser, url, window)
    top = browser.run(TOP, FIRST)
    fails = f"{UNPRICED + UNPAID:,} of {ORDERS + INVOICES:,} keys fail, 2 causes"
    assert f"{fails}, since " in top
    for count, error, controller, example in (
        (UNPRICED, "ValueError at shop/orders.py:", "shop/order", "default/order-"),
        (UNPAID, "KeyError at shop/orders.py:", "shop/invoice", "default/invoice-"),
    ):
        assert f"{count} keys: {error}" in top
        assert f"{controller}, such as {example}" in top
        assert f"ctrlhost queue {controller} --failing" in top
    assert "no leader election" in top
    assert browser.run("return document.title").startswith(f"✖ {fails} · ctrlhost on ")
    # What helps to find other things comes after that.
    assert browser.run(
        "const [banner, tools] = ['verdict', 'tools'].map((id) => document.getElementById(id).getBoundingClientRect());"
        "return banner.bottom < tools.top && !document.querySelector('header a, header input')"
    )


@behaviour("oncall/OC2")
def test_what_fails_comes_first_and_what_is_well_takes_a_line(browser: Browser, url: str) -> None:
    show(browser, url, DESKTOP)
    sections = browser.run(SECTIONS)
    assert sections[:6] == [
        *("s-verdict", "s-problems", "s-plugins", "s-plugins-well", "s-controllers", "s-controllers-well"),
    ]
    cells = "return [...document.querySelectorAll(`[data-rows=${arguments[0]}] > tr`)].map((row) => row.innerText)"
    assert browser.run(cells, "plugins")[0].split()[:3] == ["shop", "✖", "failing"]
    assert [row.split()[:3] for row in browser.run(cells, "controllers")] == [
        ["shop/order", "✖", "failing"],
        ["shop/invoice", "✖", "failing"],
    ]
    # One state each, and no table of what is well.
    assert not any("running" in row or "ok" in row for row in browser.run(cells, "plugins"))
    assert browser.text("#s-plugins-well") == "Other plugins 2 running: dns, backup"
    assert browser.text("#s-controllers-well") == "Other controllers 3 ok: dns/dns, shop/delivery, backup/backup"
    browser.run("document.querySelector('#s-controllers-well summary').click()")
    eventually(lambda: "shop/delivery\t● ok" in browser.text("#s-controllers-well"), PATIENCE, "the table")
    # What was opened stays open when the page changes.
    eventually(
        lambda: "s ago" in browser.text("#verdict") and browser.run("return document.body.dataset.live") == "live",
        PATIENCE,
        "another answer",
    )
    assert browser.run("return document.querySelector('#s-controllers-well details').open")


@behaviour("oncall/OC3")
def test_the_page_of_a_controller_has_causes_keys_and_runs_and_its_plots_can_be_read(
    browser: Browser, url: str
) -> None:
    show(browser, url + CONTROLLER, DESKTOP)
    sections = browser.run(SECTIONS)
    order = [sections.index(f"s-{name}") for name in ("verdict", "problems", "failing", "runs")]
    assert order == sorted(order)
    assert "s-plots" in sections
    assert browser.text("#verdict").startswith(f"✖ failing: {UNPRICED} of {ORDERS:,} keys fail, 1 cause")
    browser.run("document.querySelector('#s-problems summary').click()")
    trace = browser.text("#s-problems pre")
    assert trace.startswith("Traceback (most recent call last):\n")
    assert 'raise ValueError(f"no price for {request.name}")' in trace
    assert "of ctrlhost" in trace
    row = browser.text("[data-rows=failing] > tr")
    assert row.startswith("default/order-")
    assert "ValueError: no price for order-" in row

    plotted = eventually(lambda: browser.run("return !!document.querySelector('#plot-rate svg')"), PATIENCE, "a plot")
    assert plotted
    scale = browser.run("return [...document.querySelectorAll('#plot-rate .y span')].map((one) => one.textContent)")
    assert len(scale) == 3
    assert scale[2] == "0.0"
    assert [float(text.replace(",", "")) for text in scale] == sorted(
        (float(text.replace(",", "")) for text in scale), reverse=True
    )
    # The plot begins with the process, not an hour ago.
    began = browser.text("#plot-rate .axis span")
    assert began == "" or not began.endswith("60 min ago")
    browser.run(
        "const svg = document.querySelector('#plot-rate svg'), box = svg.getBoundingClientRect();"
        "svg.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: box.right, clientY: box.top}))"
    )
    assert browser.text("#plot-rate output").endswith(", 0 s ago")
    value = browser.run("return document.querySelector('#plot-rate svg').dataset.values.split('|').pop()")
    assert browser.text("#plot-rate output").startswith(value or NONE)


@behaviour("oncall/OC4")
def test_the_page_of_a_key_has_its_error_runs_events_and_commands(browser: Browser, url: str) -> None:
    show(browser, url + KEY, DESKTOP)
    assert browser.text("#verdict").startswith("✖ backing off, since ")
    assert ", next run in " in browser.text("#verdict")
    assert "1 in a row, reconcile " in browser.text("#failing")
    assert "raise ValueError" in browser.text("#trace")
    assert browser.text("#trace").rstrip().endswith("ValueError: no price for order-17")
    assert "ValueError: no price for order-17" in browser.text("[data-rows=runs]")
    assert browser.text("[data-rows=events]").split("\t")[:3] == ["✖ Warning", "NoPrice", "no price for order-17"]
    commands = browser.run("return [...document.querySelectorAll('.commands code')].map((one) => one.textContent)")
    assert commands == [
        "kubectl describe configmaps order-17 --namespace default",
        "ctrlhost explain-key shop/order default/order-17",
        "ctrlhost enqueue shop/order default/order-17",
    ]
    # One click selects a command.
    assert browser.run("return getComputedStyle(document.querySelector('.cmd')).userSelect") == "all"


@behaviour("oncall/OC5")
@pytest.mark.parametrize("page", PATHS)
def test_nothing_is_cut_on_a_phone_and_rows_are_cards(browser: Browser, url: str, page: str) -> None:
    show(browser, url + PATHS[page], PHONE)
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert [text for check in ("cut", "words", "overlaps") for text in defects(browser, check)] == []
    assert browser.run(
        "return [...document.querySelectorAll('tbody > tr')].every((row) => getComputedStyle(row).display === 'block')"
    )


@behaviour("oncall/OC5")
def test_the_overview_of_two_causes_has_three_screens_of_a_phone_at_most(browser: Browser, url: str) -> None:
    show(browser, url, PHONE)
    assert browser.run("return document.documentElement.scrollHeight") <= SCREENS * PHONE.height
    card = browser.text("[data-rows=controllers] > tr")
    assert card.startswith("shop/order")
    assert "failing" in card
    show(browser, url + CONTROLLER, PHONE)
    card = browser.text("[data-rows=failing] > tr")
    assert card.startswith("default/order-")
    assert "ValueError: no price for order-" in card


@behaviour("oncall/OC9")
@pytest.mark.parametrize("page", PATHS)
def test_keyboard_names_contrast_and_a_steady_layout(browser: Browser, url: str, page: str) -> None:
    for window in (DESKTOP, PHONE, Window(1400, dark=True), Window(390, dark=True, height=844)):
        show(browser, url + PATHS[page], window)
        assert [text for check in CHECKS for text in defects(browser, check)] == []
        # What the script adds takes no room from what is there; 0.1 counts as a jump that people notice.
        assert browser.run(SHIFT) < 0.1


@behaviour("oncall/OC8")
def test_an_unknown_page_leads_back(browser: Browser, url: str) -> None:
    browser.show(f"{url}/status/plugins/shp", PHONE)
    assert "hint: did you mean `shop`?" in browser.text()
    assert [text for check in CHECKS for text in defects(browser, check)] == []
    browser.run("[...document.querySelectorAll('main a')].at(-1).click()")
    eventually(lambda: "keys fail" in browser.text("#verdict"), PATIENCE, "the page of the host")


#: What the first screen has to say in each incident; the others have tests of their own.
SAID = {
    "poisoned-key": ("1 of 40 keys fails, 1 cause, since ", "ctrlhost explain-key shop/order default/order-0"),
    "missing-rights": (
        "6 rights missing for dns, shop, backup",
        "ctrlhost manifests --plugins=dns,shop,backup --image=IMAGE | kubectl apply --server-side -f -",
    ),
    "slow-server": ("API server is slow: 2 s per request", "kubectl get --raw /readyz?verbose"),
    "standby": (
        "standby: this replica does nothing; ctrlhost-7d9f8b6c5d-x2x7q_0b9e leads",
        "kubectl port-forward --namespace default pod/ctrlhost-7d9f8b6c5d-x2x7q 8485",
    ),
}


@behaviour("oncall/OC1")
@pytest.mark.parametrize("incident", SAID)
def test_the_first_screen_tells_each_incident_and_what_to_type(browser: Browser, incident: str) -> None:
    with INCIDENTS[incident]() as host:
        for window in (DESKTOP, PHONE):
            show(browser, url_of(host), window)
            top = browser.run(TOP, FIRST)
            for text in SAID[incident]:
                assert text in top
            assert SAID[incident][0].partition(", since")[0] in browser.run("return document.title")


@behaviour("oncall/OC2")
def test_a_cause_that_ends_leaves_the_page_without_reload(browser: Browser) -> None:
    with INCIDENTS["poisoned-key"]() as host:
        show(browser, url_of(host), DESKTOP)
        browser.run("window.mark = true")
        assert browser.text("#s-problems")
        host.client.apply(config_map("order-0", labels={"kind": "order"}, price="2"), field_manager="test")
        eventually(lambda: browser.text("#verdict").startswith("● ready: "), PATIENCE, "a good state", pause=0.1)
        assert browser.run("return document.getElementById('s-problems')") is None
        assert browser.run("return document.title").startswith("● ready: ")
        host.client.create(config_map("order-new", labels={"kind": "order"}))
        eventually(lambda: "default/order-new" in browser.text("#s-problems"), PATIENCE, "the new cause", pause=0.1)
        assert browser.run("return window.mark")
