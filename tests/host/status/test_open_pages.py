"""Open pages: each asks for itself again, gets 304 while nothing has changed, and shares renderings with the others."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ctrlhost
from ctrlhost import For, Request
from ctrlhost.host.reports import Reports
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.reconcilers import controller
from tests.support.status_page import get, page_at
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour

LISTEN = "127.0.0.1:0"


@pytest.fixture
def host(ctrlhost_host: Any) -> Any:
    """Return a host with one controller that has nothing to do."""
    plugin = plugin_of(lambda plugin: plugin.add_controller("c", lambda ctx, request: None, For("v1", "ConfigMap")))
    host = ctrlhost_host(plugin, listen=LISTEN)
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    return host


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """Return the path and the parameters of each rendering from now on."""
    renderings: list[tuple[str, dict[str, str]]] = []
    page = Reports.page

    def seen(reports: Reports, path: str, query: dict[str, str]) -> Any:
        renderings.append((path, query))
        return page(reports, path, query)

    monkeypatch.setattr(Reports, "page", seen)
    return renderings


def ask(host: Any, path: str, etag: str) -> tuple[int, str, bytes]:
    """Ask for a page as its script does; return status, tag and body."""
    status, headers, body = get(host, path, **{"Accept": "text/html", "If-None-Match": etag})
    assert headers["Vary"] == "Accept, Accept-Encoding"
    return status, headers["ETag"], body


def test_a_page_in_which_nothing_has_changed_is_304_until_something_has(ctrlhost_host: Any) -> None:
    def reconcile(_ctx: ctrlhost.Context, request: Request) -> None:
        raise KeyError(request.name)

    host = ctrlhost_host(controller(reconcile, For("v1", "ConfigMap", label_selector="mine")), listen=LISTEN,
                         controllers={"demo/c": {"base_delay": "1h", "max_delay": "1h"}})  # fmt: skip
    host.wait_for(lambda: host.host.plugins[0].state == "running")
    path = "/status/keys/demo/c?key=default/ann"
    first = page_at(host, path)
    etag = first.headers["ETag"]
    assert ask(host, path, etag) == (304, etag, b"")
    # Another rendering, whose time alone differs.
    later = eventually(lambda: (page := page_at(host, path)).text != first.text and page)
    assert "As of " in later.text
    assert later.headers["ETag"] == etag
    host.client.create(config_map("ann", labels={"mine": "1"}))

    def changed() -> bytes:
        status, fresh, body = ask(host, path, etag)
        assert (status == 304) == (fresh == etag)
        return body

    eventually(lambda: b"KeyError" in changed())


@behaviour("operations/OP67")
@behaviour("oncall/OC9")
def test_thirty_two_open_pages_share_a_rendering_per_second(host: Any, rendered: list[Any]) -> None:
    etag = page_at(host).headers["ETag"]
    rendered.clear()
    began = time.monotonic()

    def view(_number: int) -> int:
        seen = 0
        while seen < 30:
            status, _, body = ask(host, "/", etag)
            assert (status, not body) in ((200, False), (304, True))
            seen += 1
        return seen

    with ThreadPoolExecutor(32) as viewers:
        assert sum(viewers.map(view, range(32))) == 32 * 30
    # Each of the seconds that it took has begun one, at most.
    assert len(rendered) <= time.monotonic() - began + 1
    # Who loads a page sees what is true now.
    rendered.clear()
    page_at(host)
    page_at(host)
    assert len(rendered) == 2


def test_parameters_that_a_page_does_not_read_have_no_rendering_of_their_own(host: Any, rendered: list[Any]) -> None:
    pages = ("/status/controllers/demo/c", "/status/keys/demo/c?key=a/b", "/status/plugins/demo", "/")
    for path in pages:
        page_at(host, f"{path}{'&' if '?' in path else '?'}x=1&failing=&key=a/b")
    kept = [dict(query) for _, query in rendered]
    assert kept == [{"failing": ""}, {"key": "a/b"}, {}, {}]
    etag = page_at(host).headers["ETag"]
    rendered.clear()
    with ThreadPoolExecutor(8) as viewers:
        answers = list(viewers.map(lambda number: ask(host, f"/?x={number}", etag), range(8)))
    assert {status for status, _, _ in answers} <= {200, 304}
    assert len(rendered) < 8


def test_a_page_that_is_unknown_or_fails_is_not_kept(
    host: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for path, status in (("/status/plugins/dem0", 404), ("/status/keys/demo/c", 400)):
        assert page_at(host, path).status == status

    def fail(*_args: Any) -> Any:
        raise KeyError("on purpose")

    with monkeypatch.context() as patch:
        patch.setattr(Reports, "page", fail)
        assert page_at(host).status == 500
    assert page_at(host).status == 200
    assert any("on purpose" in record.getMessage() for record in caplog.records)
