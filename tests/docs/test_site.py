"""The site that Sphinx makes of docs/: without warnings, without network, and without remote parts."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.test_make import commands

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REMOTE = re.compile(r"^(https?:)?//", re.IGNORECASE)

#: Sphinx in a process whose first connection or look-up of a name ends it.
OFFLINE = """
import os, runpy, sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        os.write(2, f"{event} {arguments}".encode())
        os._exit(99)
sys.addaudithook(refuse)
runpy.run_module("sphinx", run_name="__main__")
"""


class Loaded(HTMLParser):
    """What a browser loads by itself for a page, and the targets of its side bar."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # `a` is followed by the reader, and `xmlns` is a name.
        names = {"src", "srcset", "data", "poster", "action"} | ({"href", "xlink:href"} if tag != "a" else set())
        self.addresses += [value or "" for name, value in attrs if name in names]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ["-b", "html", "-W", "-n", "-q", "-E", "-d", folder / "doctrees"]
    command = [sys.executable, "-c", OFFLINE, *map(str, options), str(DOCS), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


@pytest.mark.behaviour("authoring/AD3")
def test_the_site_is_built_offline_without_warnings_and_loads_nothing_remote(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert [
            address for address in Loaded(page.read_text(encoding="utf-8")).addresses if REMOTE.match(address)
        ] == [], page
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert re.findall(r"@import|url\(\s*[\"']?(?:https?:)?//[^)]*", sheet.read_text(encoding="utf-8")) == [], sheet


def test_each_page_is_in_the_side_bar_once(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    tree = index[index.index('<div class="sidebar-tree">') :].partition("</aside>")[0]
    targets = re.findall(r'class="reference internal" href="([^"#]+)\.html"', tree)
    pages = [page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(targets) == sorted(page for page in pages if page != "index")


@pytest.mark.behaviour("authoring/AD3")
def test_make_docs_builds_the_site_as_the_test_does() -> None:
    assert commands("docs").splitlines()[-1].endswith("-m sphinx -b html -W -n -q docs docs/_build/html")
    conf = (DOCS / "conf.py").read_text(encoding="utf-8")
    assert "intersphinx" not in conf
