"""Configuration of Sphinx: `make docs` builds the pages below this folder, without network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import ctrlhost

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "ctrlhost"
release = version = ctrlhost.__version__
html_title = f"ctrlhost {version}"

extensions = ["myst_parser"]
exclude_patterns = ["_build"]

# Headings are link targets, as on code hosts.
myst_heading_anchors = 4

html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

#: The sections of the side bar, and the pages of each; patterns take what is not named before.
CONTENTS = {
    "Learn": ["tutorial"],
    "Do": ["how-to/from-*", "how-to/testing", "how-to/library", "how-to/deploy", "sandbox", "how-to/*"],
    "Look up": ["reference/plugin", "reference/context", "reference/*"],
    "Plugins": ["plugins/*"],
    "Understand": ["architecture", "informers", "benchmarks", "*"],
}

_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?!https?://|#)(?P<target>[^)#\s]+)(?:#[^)]*)?\)")


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the side bar to the first page: a code host would show it as code."""
    if page != app.config.root_doc:
        return
    pages = sorted(path.relative_to(app.srcdir).with_suffix("") for path in Path(app.srcdir).rglob("*.md"))
    left = [path for path in pages if path.as_posix() != page]
    for caption, patterns in CONTENTS.items():
        taken = []
        for pattern in patterns:
            # `*` of a path has no slash.
            matching = [path for path in left if path.match(pattern) and path.parent == Path(pattern).parent]
            taken += matching
            left = [path for path in left if path not in matching]
        lines = "\n".join(path.as_posix() for path in taken)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def drop_links_to_sources(app: Sphinx, page: str, source: list[str]) -> None:
    """Keep only the text of links to what is no part of the site, such as a folder of examples."""
    root = Path(app.srcdir).resolve()
    folder = (root / page).parent

    def kept(match: re.Match[str]) -> str:
        target = (folder / match["target"]).resolve()
        return match[0] if target.is_file() and target.is_relative_to(root) else match["text"]

    source[0] = _LINK.sub(kept, source[0])


def setup(app: Sphinx) -> None:
    """Read pages as the site has them."""
    app.connect("source-read", drop_links_to_sources)
    app.connect("source-read", add_contents)
