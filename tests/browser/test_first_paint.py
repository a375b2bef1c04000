"""What a browser asks for to show `/`, and what it costs."""

from __future__ import annotations

import gzip
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.support.browser import Browser
from tests.support.pages_rig import GROUPS, PagesRig
from tests.support.waiting import eventually

#: Bytes, as in section 14 of the specification.
HTML, COMPRESSED, ASSETS, SCRIPT = 80 * 1024, 12 * 1024, 24 * 1024, 8 * 1024
CONTROLLERS = 50


@pytest.fixture(scope="module")
def large() -> Iterator[PagesRig]:
    with PagesRig(CONTROLLERS) as rig:
        rig.populate()
        yield rig


def load(url: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": "text/html"}), timeout=60) as answer:
        body: bytes = answer.read()
        return body


@pytest.mark.behaviour("operations/OP50")
def test_the_page_of_50_controllers_takes_three_small_requests_of_one_origin(browser: Browser, large: PagesRig) -> None:
    browser.show(f"{large.url}/")
    assert eventually(browser.first_paint) > 0
    assert eventually(lambda: browser.text("#live") == "live")
    messages, requests = browser.messages(), browser.requests()
    assert messages == []
    assert {f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in requests} == {large.url}
    # The page asks for itself again.
    loaded = list(dict.fromkeys(requests))
    assert len(loaded) == 3
    assert loaded[0] == f"{large.url}/"
    bodies = {urlsplit(url).path.rpartition(".")[2]: load(url) for url in loaded}
    assert set(bodies) == {"/", "css", "js"}
    assert len(large.host.host.factory.informers()) >= GROUPS
    assert bodies["/"].count(b"controller-") >= CONTROLLERS
    assert len(bodies["/"]) <= HTML
    assert len(gzip.compress(bodies["/"])) <= COMPRESSED
    assert len(bodies["js"]) <= SCRIPT
    assert len(bodies["js"]) + len(bodies["css"]) <= ASSETS
