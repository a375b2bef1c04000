"""Each page on a phone and on a desktop, light and dark: its layout, its contrast, its names, its use by keyboard."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.browser.page_checks import CHECKS, defects
from tests.support.browser import ROOT, WINDOWS, Browser, Window
from tests.support.pages_rig import PagesRig

#: Where the pictures of the last run are.
SCREENSHOTS = ROOT / ".cache" / "screenshots"
LAYOUT = ("cut", "words", "overlaps")

windows = pytest.mark.parametrize("window", WINDOWS, ids=str)


def wrong(browser: Browser, page: str, checks: Iterable[str]) -> dict[str, list[str]]:
    """Return the defects of the page that the browser shows, by page and check."""
    return {f"{page}: {check}": listed for check in checks if (listed := defects(browser, check))}


@pytest.mark.behaviour("operations/OP51")
@windows
def test_nothing_is_cut_off_and_nothing_overlaps(browser: Browser, rig: PagesRig, window: Window) -> None:
    failures: dict[str, list[str]] = {}
    for page, url in rig.pages().items():
        browser.show(url, window)
        picture = SCREENSHOTS / f"{page}-{rig.controllers}-{window}.png"
        picture.unlink(missing_ok=True)
        browser.screenshot(picture)
        assert picture.read_bytes().startswith(b"\x89PNG")
        failures |= wrong(browser, page, LAYOUT)
    assert failures == {}


@pytest.mark.behaviour("operations/OP56")
@windows
def test_contrast_names_headings_and_keyboard(browser: Browser, few: PagesRig, window: Window) -> None:
    failures: dict[str, list[str]] = {}
    titles: list[str] = []
    for page, url in few.pages().items():
        browser.show(url, window)
        titles.append(browser.run("return document.title"))
        failures |= wrong(browser, page, (name for name in CHECKS if name not in LAYOUT))
    assert failures == {}
    assert len(set(titles)) == len(titles)
