"""What is wrong with the page in a browser: layout, contrast, names, headings, tables, keyboard."""

from __future__ import annotations

from tests.support.browser import Browser

CHECKS = ("cut", "words", "overlaps", "contrast", "names", "headings", "tables", "keyboard", "focus")
#: Elements that Tab visits at most; longer pages are visited up to there.
_MOST = 30
_COUNT = "return focusable().length"
#: Rows of a live page may come and go between two keys.
_EXPECT = "const all = focusable(); window.next = all[all.indexOf(document.activeElement) + 1];"
_LOOK = f"""
    const at = document.activeElement, next = window.next;
    const wrong = at !== next && next?.isConnected ? [`Tab visits ${{name(at)}}, not ${{name(next)}}`] : checks.focus();
    {_EXPECT}
    return wrong"""


def defects(browser: Browser, check: str) -> list[str]:
    """Return what one of `CHECKS` finds wrong with the page."""
    return _focus(browser) if check == "focus" else browser.check(check)


def _focus(browser: Browser) -> list[str]:
    """Press Tab through the page: it visits all in order, and where it is can be seen."""
    browser.ask(f"document.activeElement?.blur(); scrollTo(0, 0); {_EXPECT}")
    names: list[str] = []
    for _ in range(min(browser.ask(_COUNT), _MOST)):
        browser.key("Tab", 9)
        names += browser.ask(_LOOK)
    return names
