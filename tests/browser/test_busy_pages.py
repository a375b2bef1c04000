"""Pages of a long queue."""

from __future__ import annotations

import pytest

from ctrlhost import Request
from tests.support.browser import Browser
from tests.support.pages_rig import WORKERS, PagesRig
from tests.support.waiting import eventually

KEYS = 100_000
SHOWN = "return [...document.querySelectorAll('[data-rows=queued] th')].map(one => one.textContent)"
LAST = "return document.querySelector('[data-rows=queued]').lastElementChild.textContent"
LINK = "[...document.querySelectorAll('[data-rows=queued] a')].find(one => one.textContent === arguments[0])"


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
        assert f"{KEYS:,}" in browser.run("return document.querySelector('[data-rows=controllers-well]').textContent")
        browser.show(f"{rig.url}/status/controllers/shown/controller-00")
        first = browser.run(SHOWN)
        assert first == [f"default/name-{number:06}" for number in range(100)]
        assert f"100 of {KEYS:,}" in browser.run("return document.querySelector('[data-rows=queued]').textContent")
        browser.run(f"{LINK}.click()", "next")
        second = eventually(lambda: (text := browser.run(SHOWN)) != first and text, 60, "the next page", pause=0.05)
        assert second == [f"default/name-{number:06}" for number in range(100, 200)]
        # The page asks for the same keys again.
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
