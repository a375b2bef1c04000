"""Pages of a long queue, and a page that finds no stream left."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from ctrlhost import Request
from tests.support.browser import Browser
from tests.support.pages_rig import WORKERS, PagesRig
from tests.support.waiting import eventually

#: Streams of events at once.
STREAMS = 32
KEYS = 100_000
SHOWN = "return [...document.querySelectorAll('[data-rows=queued] th')].map(one => one.textContent)"
LAST = "return document.querySelector('[data-rows=queued]').lastElementChild.textContent"
LINK = "[...document.querySelectorAll('[data-rows=queued] a')].find(one => one.textContent === arguments[0])"


@contextmanager
def streams(url: str, count: int) -> Iterator[list[http.client.HTTPResponse]]:
    """Hold streams of the page `/` open."""
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
            stack.callback(connection.close)
            connection.request("GET", "/api/v1/events?page=/")
            found.append(connection.getresponse())
        yield found


def status(browser: Browser, text: str) -> None:
    eventually(lambda: text in browser.text("#live"), 60, text, pause=0.05)


@pytest.mark.behaviour("operations/OP66")
def test_a_long_queue_has_pages_of_100_keys(browser: Browser) -> None:
    with PagesRig(4) as rig:
        controller = rig.host.controllers["shown/controller-00"]
        for number in range(WORKERS):
            rig.create(f"slow-{number}")
        eventually(lambda: controller.queue.page("processing", 0).total == WORKERS, 60, "busy workers")
        controller.queue.add_many([Request(f"name-{number:06}", "default") for number in range(KEYS)])
        browser.show(f"{rig.url}/")
        status(browser, "live")
        assert f"{KEYS:,}" in browser.run("return document.querySelector('[data-rows=controllers]').textContent")
        browser.show(f"{rig.url}/status/controllers/shown/controller-00")
        first = browser.run(SHOWN)
        assert first == [f"default/name-{number:06}" for number in range(100)]
        assert f"100 of {KEYS:,}" in browser.run("return document.querySelector('[data-rows=queued]').textContent")
        browser.run(f"{LINK}.click()", "next")
        second = eventually(lambda: (found := browser.run(SHOWN)) != first and found, 60, "the next page", pause=0.05)
        assert second == [f"default/name-{number:06}" for number in range(100, 200)]
        # The stream of that page shows the same keys.
        status(browser, "live")
        assert browser.run(SHOWN) == second
        # Sorted by a column, the links stay below.
        for head in ("thead th:last-child button", "thead th button", "thead th button"):
            browser.run(
                f"document.querySelector('[data-rows=queued]').closest('table').querySelector('{head}').click()"
            )
            assert browser.run(LAST).startswith("100 of ")
        assert browser.run(SHOWN) == second[::-1]
        browser.run(f"{LINK}.click()", "first")
        eventually(lambda: browser.run(SHOWN) == first, 60, "the first page", pause=0.05)


@pytest.mark.behaviour("operations/OP67")
def test_a_page_beyond_the_last_stream_says_so_polls_and_gets_the_next_free_one(browser: Browser) -> None:
    with PagesRig(4) as rig:
        # The page before this one gives its own stream back.
        browser.show("about:blank")
        with streams(rig.url, STREAMS) as held:
            assert [answer.status for answer in held] == [200] * STREAMS
            with streams(rig.url, 1) as (refused,):
                assert (refused.status, refused.headers["Retry-After"] is not None) == (503, True)
            browser.show(f"{rig.url}/")
            status(browser, "too many open pages")
            key = rig.create("failing-while-polled")
            rows = "return document.querySelector('[data-rows=errors]').textContent"
            eventually(lambda: key in browser.run(rows), 60, "the error", pause=0.1)
            assert "too many open pages" in browser.text("#live")
        status(browser, "live")
