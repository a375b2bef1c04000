"""The checks of pages themselves: each finds what is wrong with a page that has one defect."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.browser.page_checks import CHECKS, defects
from tests.support.browser import WINDOWS, Browser, Window
from tests.support.waiting import eventually

PHONE = Window(360)

#: A page without a defect; each bad one differs in one place.
GOOD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Good</title>
<style>
:root { color-scheme: light dark; background: Canvas; color: CanvasText; font: 14px sans-serif }
.wide { overflow-x: auto } .wide table { min-width: 900px }
.apart { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
a { color: LinkText } input { border: 1px solid currentcolor }
:focus-visible { outline: 2px solid currentcolor }
/*style*/
</style></head><body>
<header><p>Above</p></header>
<main><h1>Title</h1><p id="text">Some text with a <a href="#below">link</a>.</p>
<label>Filter <input type="search"></label> <button>Sort</button>
<h2 id="below">Part</h2>
<div class="wide" tabindex="0" role="region" aria-label="A wide table"><table><caption>Things</caption>
<thead><tr><th scope="col">Name</th><th scope="col">Plot</th></tr></thead>
<tbody><tr><th scope="row">one</th><td><svg role="img" aria-label="rate" width="60" height="20">
<polyline points="0,10 60,5" fill="none" stroke="currentcolor"/></svg></td></tr></tbody></table></div>
<span class="apart">for screen readers, a text that is not cut off</span>
</main></body></html>"""

BAD = {
    "page too wide": ("<p id=", '<p style="width: 2000px" id=', "cut", "the page is "),
    "outside on the left": ("<h1>", '<h1 style="margin-left: -30px">', "cut", "is outside of the window"),
    "hidden text": ("<h1>", '<h1 style="overflow: hidden; width: 10px">', "cut", " shows 10 of "),
    "hidden lines": ("<p id=", '<p style="overflow: hidden; height: 5px" id=', "cut", " shows 5 of "),
    "text out of its box": ("<p id=", '<p style="width: 20px; white-space: nowrap" id=', "cut", "leaves its box"),
    "narrow": ("<p id=", '<p style="width: 50px; word-break: break-all" id=', "words", "breaks "),
    "markup": ("Some text", "Some &lt;b>text&lt;/b>", "words", "shows markup"),
    "escaped twice": ("Some text", "Some &amp;lt; text", "words", "shows markup"),
    "text on text": ("<p id=", '<p style="margin-top: -25px" id=', "overlaps", "overlap"),
    "button on text": ("<button>", '<button style="position: absolute; top: 40px; left: 10px">', "overlaps", "overlap"),
    "pale text": ("<p id=", '<p style="color: #888" id=', "contrast", "has a contrast of "),
    "transparent text": ("<p id=", '<p style="opacity: 0.4" id=', "contrast", "has a contrast of "),
    "text on its own colour": ("<p id=", '<p style="background: CanvasText" id=', "contrast", "has a contrast of 1.00"),
    "pale plot": ('stroke="currentcolor"', 'stroke="#8882"', "contrast", "has a contrast of "),
    "pale border": ("solid currentcolor }\n:f", "solid #8883 }\n:f", "contrast", "the border of "),
    "no language": (' lang="en"', "", "names", "no language"),
    "no title": ("<title>Good</title>", "<title> </title>", "names", "no title"),
    "not enlarged": ("device-width", "device-width, user-scalable=no", "names", "no viewport"),
    "no main": ("main>", "div>", "names", "not exactly one main part"),
    "nameless link": (">link<", "><", "names", "has no name"),
    "nameless button": (">Sort<", "><", "names", "has no name"),
    "nameless input": ("label>", "span>", "names", "has no name"),
    "nameless plot": (' aria-label="rate"', "", "names", "neither a name nor aria-hidden"),
    "same id": ('id="text"', 'id="below"', "names", "the id below stands twice"),
    "no reference": ('aria-label="A wide table"', 'aria-labelledby="gone"', "names", "refers to nothing"),
    "two titles": ("h2", "h1", "headings", "not exactly one h1"),
    "no headings": ("h1>", "p>", "headings", "not exactly one h1"),
    "skipped level": ("h2", "h3", "headings", "skips a level"),
    "nameless table": ("<caption>Things</caption>", "", "tables", "has no name"),
    "header without scope": (' scope="col"', "", "tables", "has no scope"),
    "empty header": (">Plot<", "><", "tables", "is empty"),
    "cell in a head": ('<th scope="col">Plot</th>', "<td>Plot</td>", "tables", "is no th"),
    "no order": ('tabindex="0"', 'tabindex="3"', "keyboard", "is out of order"),
    "scrolled by mouse only": (' tabindex="0"', "", "keyboard", "cannot be scrolled by keyboard"),
    "mouse only": ("<h1>", '<h1 style="cursor: pointer">', "keyboard", "can be clicked only"),
    "no focus": ("outline: 2px solid currentcolor", "outline: none", "focus", "cannot be seen"),
    "pale focus": ("outline: 2px solid currentcolor", "outline: 2px solid #8883", "focus", "cannot be seen"),
    "unreachable": ("<button>", '<button tabindex="-1">', "keyboard", "cannot be reached"),
    "visual order": (
        '<p id="text">',
        '<p id="text" onfocusin="document.querySelector(`button`).focus()">',
        "focus",
        "Tab visits ",
    ),
}


def show(browser: Browser, page: str, window: Window = PHONE) -> None:
    browser.show(f"data:text/html;charset=utf-8,{quote(page)}", window)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_good_page_has_no_defects(browser: Browser, window: Window) -> None:
    show(browser, GOOD, window)
    assert [defect for name in CHECKS for defect in defects(browser, name)] == []


@pytest.mark.parametrize("defect", BAD)
def test_a_defect_is_found_by_its_check(browser: Browser, defect: str) -> None:
    old, new, check, message = BAD[defect]
    assert old in GOOD
    show(browser, GOOD.replace(old, new), PHONE)
    assert any(message in text for text in defects(browser, check)), defects(browser, check)


def test_requests_messages_and_paint_are_seen(browser: Browser) -> None:
    script = "<script>console.warn('look'); fetch('http://127.0.0.1:1/gone').catch(() => 0)</script>"
    show(browser, GOOD.replace("</main>", f"</main>{script}"), PHONE)
    messages: list[str] = []
    eventually(lambda: messages.extend(browser.messages()) or any("ERR_" in text for text in messages))
    assert any("look" in text for text in messages)
    assert browser.requests() == ["http://127.0.0.1:1/gone"]
    assert eventually(browser.first_paint) > 0


def test_a_page_without_script_shows_what_it_says_for_that(browser: Browser) -> None:
    page = GOOD.replace("</main>", "</main><noscript>no script</noscript><script>document.title = 'run'</script>")
    show(browser, page, Window(script=False))
    assert (browser.text("noscript"), browser.run("return document.title")) == ("no script", "Good")
    show(browser, page)
    assert (
        browser.run("return document.querySelector('noscript').checkVisibility()"),
        browser.run("return document.title"),
    ) == (False, "run")
