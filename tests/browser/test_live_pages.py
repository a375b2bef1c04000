"""Open pages: what changes without a reload, what stays, and what a page says when its host is gone."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from ctrlhost_sandbox import Sandbox

from tests.support.browser import Browser, Window
from tests.support.pages_rig import PagesRig
from tests.support.waiting import eventually

#: What a page has that was not loaded again.
MARK = "window.mark = true"
MARKED = "return window.mark === true"
#: Seconds of the waits, several times what the rows allow, since machines may be busy.
PATIENCE = 30
FILTER = "input[type=search]"
HEADINGS = "return [...document.querySelectorAll('h2')].map(one => one.textContent)"
PLACE = "return document.querySelector('#h-informers').getBoundingClientRect().top"
HIDDEN = "return [...document.querySelectorAll('tbody > tr')].filter(row => row.hidden).length"
SHOWN = "return [...document.querySelectorAll('tbody > tr')].filter(row => !row.hidden).map(row => row.textContent)"


def rows(browser: Browser, section: str, text: str) -> list[str]:
    """Return the texts of the rows of a section that contain a text."""
    script = "return [...document.querySelectorAll(`[data-rows=${arguments[0]}] > *`)].map(row => row.textContent)"
    return [row for row in browser.run(script, section) if text in row]


def live(browser: Browser) -> None:
    eventually(lambda: browser.text("#live") == "live", PATIENCE, "an answer", pause=0.05)


@pytest.mark.behaviour("operations/OP52")
def test_a_failure_shows_without_reload_and_scroll_focus_and_filter_stay(browser: Browser, few: PagesRig) -> None:
    browser.show(f"{few.url}/", Window(360))
    live(browser)
    browser.run(
        f"{MARK}; const search = document.querySelector('{FILTER}'); search.focus(); search.value = 'controller-0';"
        "search.dispatchEvent(new Event('input', {bubbles: true}));"
        "document.querySelector('#h-informers').scrollIntoView()"
    )
    before = rows(browser, "controllers", "shown/controller-00")
    assert len(before) == 1
    hidden = browser.run(HIDDEN)
    assert hidden > 0
    place = browser.run(PLACE)
    assert browser.run("return scrollY") > 0

    key = few.create("failing-while-open")
    eventually(lambda: rows(browser, "errors", key), PATIENCE, "the error", pause=0.05)
    eventually(lambda: rows(browser, "controllers", "shown/controller-00") != before, PATIENCE, "the row", pause=0.05)
    assert browser.run(MARKED)
    # What is read stays in its place, however much is added above it.
    assert browser.run(PLACE) == pytest.approx(place, abs=1)
    assert browser.run(f"return document.activeElement === document.querySelector('{FILTER}')")
    assert browser.run(f"return document.querySelector('{FILTER}').value") == "controller-0"
    assert browser.run(HIDDEN) >= hidden
    assert all("controller-0" in text for text in browser.run(SHOWN))


@pytest.mark.behaviour("operations/OP53")
def test_a_page_without_script_is_whole_and_a_plain_client_gets_addresses(browser: Browser, few: PagesRig) -> None:
    browser.show(f"{few.url}/")
    live(browser)
    with_script = browser.run(HEADINGS)
    browser.show(f"{few.url}/", Window(script=False))
    text = browser.run("return document.body.textContent")
    assert browser.run(HEADINGS) == with_script
    for part in ("shown/controller-03", "waiting-for-a-kind", "the setting `address` is missing", "default/failing-0"):
        assert part in text
    assert '<noscript><meta http-equiv="refresh" content="10">' in browser.run("return document.head.innerHTML")
    # A control that needs the script would do nothing.
    assert browser.run("return document.querySelectorAll('input, button').length") == 0

    for accept, kind, first in (("*/*", "text/plain", "/livez"), ("text/html", "text/html", "<!doctype html>")):
        request = urllib.request.Request(few.url, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.headers.get_content_type() == kind
            assert answer.read().decode().startswith(first)


@pytest.mark.behaviour("operations/OP53")
def test_a_page_without_script_loads_itself_again(browser: Browser, few: PagesRig) -> None:
    browser.show(f"{few.url}/", Window(script=False))
    assert f"{few.url}/" in browser.requests()
    key = few.create("failing-without-script")
    eventually(lambda: f"{few.url}/" in browser.requests(), 60, "another request", pause=0.2)
    eventually(lambda: key in browser.run("return document.body.textContent"), PATIENCE, "the new error", pause=0.1)


@pytest.mark.behaviour("operations/OP54")
def test_a_page_says_that_its_host_is_gone_and_continues_with_the_next_one(browser: Browser) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with Sandbox() as sandbox:
        with PagesRig(4, address, sandbox) as first:
            browser.show(f"{first.url}/")
            live(browser)
            browser.run(MARK)
        eventually(lambda: "connection lost" in browser.text("#live"), PATIENCE, "the loss", pause=0.05)
        with PagesRig(4, address, sandbox) as second:
            live(browser)
            key = second.create("failing-after-the-restart")
            eventually(lambda: rows(browser, "errors", key), PATIENCE, "the error of the new host", pause=0.05)
            assert browser.run(MARKED)
