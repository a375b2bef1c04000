"""What is wrong with the page in a browser: layout, contrast, names, headings, tables, keyboard."""

from __future__ import annotations

from tests.support.browser import Browser

CHECKS = ("cut", "overlaps", "contrast", "names", "headings", "tables", "keyboard", "focus")
#: Elements that Tab visits at most; longer pages are visited up to there.
_MOST = 60
_ORDER = "return focusable().length"
_WHERE = "return focusable().indexOf(document.activeElement)"


def defects(browser: Browser, check: str) -> list[str]:
    """Return what one of `CHECKS` finds wrong with the page."""
    return _focus(browser) if check == "focus" else browser.check(check)


def _focus(browser: Browser) -> list[str]:
    """Press Tab through the page: it visits all in order, and where it is can be seen."""
    browser.run("document.activeElement?.blur(); scrollTo(0, 0)")
    wanted = min(browser.ask(_ORDER), _MOST)
    found: list[str] = []
    for place in range(wanted):
        browser.key("Tab", 9)
        visited = browser.ask(_WHERE)
        if visited != place:
            return [*found, f"Tab {place + 1} visits element {visited + 1}"]
        found += browser.check("focus")
    return found
