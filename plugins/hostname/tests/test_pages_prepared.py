"""Prepared pages and the map of hostnames."""

from __future__ import annotations

import pytest
from ctrlhost_hostname.pages import MAX_PAGE_BYTES, PreparedPage, PreparedPages
from ctrlhost_hostname.routes import Connection
from ctrlhost_hostname.state import hostnames_json


@pytest.mark.behaviour("hostname/14")
def test_only_a_dirty_page_is_prepared_and_only_once(clock):
    calls = []
    pages = PreparedPages(clock)
    page = pages.add("/p", lambda: calls.append(1) or b"data")
    pages.refresh()
    assert calls == []
    page.flag()
    pages.refresh()
    pages.refresh()
    assert calls == [1]
    assert page.content[0] == b"data"


@pytest.mark.behaviour("hostname/15")
def test_a_failed_preparation_is_raised_and_leaves_the_page_dirty(clock):
    def fail():
        raise EOFError("EOF")

    pages = PreparedPages(clock)
    page, other = pages.add("/p", fail), pages.add("/other", lambda: b"fine")
    page.flag()
    other.flag()
    with pytest.raises(EOFError):
        pages.refresh()
    assert page.dirty
    assert page.content[0] == b""
    assert other.content[0] == b"fine"


@pytest.mark.behaviour("hostname/16")
def test_a_path_is_registered_once_and_with_a_function(clock):
    pages = PreparedPages(clock)
    pages.add("/p", lambda: b"")
    with pytest.raises(ValueError, match=r"^prepared result exists for path: /p$"):
        pages.add("/p", lambda: b"")
    with pytest.raises(ValueError, match=r"^passed nil value for prepare function$"):
        pages.add("/q", None)
    assert pages.get("/q") is None


@pytest.mark.behaviour("hostname/17")
def test_prepared_data_goes_from_clean_to_dirty_to_clean(clock):
    page = PreparedPage(clock, lambda: b"bytes")
    fresh = page.content
    assert fresh[0] == b""
    assert fresh[1] == clock.time()
    assert not page.dirty
    page.flag()
    assert page.dirty
    clock.advance(1)
    page.refresh()
    assert page.content[0] == b"bytes"
    assert page.content[1] > fresh[1]
    assert not page.dirty


@pytest.mark.behaviour("hostname/18")
def test_a_page_is_cut_at_eight_mebibytes(clock):
    page = PreparedPage(clock, lambda: b"x" * 10_000_000)
    page.flag()
    page.refresh()
    assert len(page.content[0]) == MAX_PAGE_BYTES == 8388608


def test_a_change_while_a_page_is_prepared_is_not_lost(clock):
    pages = PreparedPages(clock)

    def prepare():
        page.flag()
        return b"old"

    page = pages.add("/p", prepare)
    page.flag()
    pages.refresh()
    assert page.dirty


def test_the_map_is_shown_as_upstream_shows_it(objects):
    entries = {
        "shop.example.com": Connection(objects.first, "web", 80, 1782744286.5),
        "a.example.com": Connection(objects.first, "web", 80),
    }
    lease = (
        '"LeaseID":{"owner":"akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx","dseq":7001,"gseq":1,"oseq":1,'
        '"provider":"akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js","bseq":0},'
        '"Namespace":"ruglnkmpn88701se50j89lc8fntjk36kui864sjn5fjvm","ExternalPort":80,"ServiceName":"web"'
    )
    assert hostnames_json(entries).decode() == (
        f'{{"a.example.com":{{{lease},"LastUpdate":"0001-01-01 00:00:00 +0000 UTC"}},'
        f'"shop.example.com":{{{lease},"LastUpdate":"2026-06-29 14:44:46.5 +0000 UTC"}}}}\n'
    )
    assert hostnames_json({}) == b"{}\n"
