from __future__ import annotations

import html as reader

import pytest

from ctrlhost.server.html import Html, breakable, html, join, tag


@pytest.mark.behaviour("operations/OP49")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<script>alert('1')</script>", "<script>alert('1')</script>"),
        ('a "quoted" & b', 'a "quoted" & b'),
        ("first\nsecond\tthird\r", "first second third "),
        ("\x1b[31mred\x00", "␛[31mred␀"),
        ("\x7f\x9b", "␡\ufffd"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),
        ("lone \udc80", "lone \ufffd"),
        ("naïve – ünïcode 日本", "naïve – ünïcode 日本"),  # noqa: RUF001
    ],
)
def test_text_is_escaped_and_in_one_line(text: str, expected: str) -> None:
    cell = tag("td", text, title=text)
    escaped = html(text)
    assert cell == f'<td title="{escaped}">{escaped}</td>'
    assert not set("<>\"'\n\r\t") & set(escaped)
    assert reader.unescape(escaped) == expected
    escaped.encode()


def test_elements_and_what_is_html_already_are_not_escaped_again() -> None:
    inner = tag("b", "a & b")
    assert tag("p", inner, " < c", class_="x", hidden=True, title=None, aria_label="d") == (
        '<p class="x" hidden aria-label="d"><b>a &amp; b</b> &lt; c</p>'
    )
    assert join([inner, "<"], " & ") == "<b>a &amp; b</b> &amp; &lt;"
    assert html(Html("<br>")) == "<br>"
    assert html(3) == "3"


def test_long_names_may_be_broken_after_dots_and_commas() -> None:
    assert breakable("pods.metrics.k8s.io,<b>. ") == "pods.<wbr>metrics.<wbr>k8s.<wbr>io,<wbr>&lt;b&gt;. "
