"""Each page on a phone and on a desktop, light and dark: its layout, its contrast, its names, its use by keyboard."""

from __future__ import annotations

import pytest

from tests.support.browser import ROOT, WINDOWS, Browser, Window
from tests.support.page_checks import CHECKS, defects
from tests.support.pages_rig import PagesRig

#: Where the pictures of the last run are.
SCREENSHOTS = ROOT / ".cache" / "screenshots"
LAYOUT = ("cut", "words", "overlaps")

windows = pytest.mark.parametrize("window", WINDOWS, ids=str)


def found(browser: Browser, rig: PagesRig, window: Window, checks: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the defects of each page, by page and check; keep pictures of the pages."""
    wrong: dict[str, list[str]] = {}
    for name, url in rig.pages().items():
        browser.show(url, window)
        browser.screenshot(SCREENSHOTS / f"{name}-{rig.controllers}-{window}.png")
        wrong |= {f"{name}: {check}": listed for check in checks if (listed := defects(browser, check))}
    return wrong


@pytest.mark.behaviour("operations/OP51")
@windows
def test_nothing_is_cut_off_and_nothing_overlaps(browser: Browser, rig: PagesRig, window: Window) -> None:
    assert found(browser, rig, window, LAYOUT) == {}
    assert len(list(SCREENSHOTS.glob(f"*-{rig.controllers}-{window}.png"))) >= len(rig.pages())


@pytest.mark.behaviour("operations/OP56")
@windows
def test_contrast_names_headings_and_keyboard(browser: Browser, few: PagesRig, window: Window) -> None:
    assert found(browser, few, window, tuple(name for name in CHECKS if name not in LAYOUT)) == {}
    titles = []
    for url in few.pages().values():
        browser.show(url, window)
        titles.append(browser.run("return document.title"))
    assert len(set(titles)) == len(titles)
