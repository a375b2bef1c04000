"""The figures of the README are those from `make bench`."""

from __future__ import annotations

from pathlib import Path

from benches.headline import BEGIN, END, headline, with_headline

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_the_figures_equal_those_of_the_benchmarks_page() -> None:
    assert BEGIN + headline(PAGE) + END in README


def test_new_figures_replace_them() -> None:
    other = PAGE.replace("| informer | memory per pod | 5,", "| informer | memory per pod | 6,")
    assert other != PAGE
    assert with_headline(README, other) != README
    assert with_headline(with_headline(README, other), PAGE) == README


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 90
