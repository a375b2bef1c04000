"""Write `[project.urls]` into a tree that is to be published: `python release/addresses.py ADDRESS [--tree DIR]`.

ADDRESS is that of the repository, with the paths that GitHub has below it. Without it a wheel has no addresses.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

from check import URLS, read, version_of

#: No quotes or controls, which TOML would have to escape.
_ADDRESS = re.compile(r"https://[\w.-]+(/[\w.~-]+)+")


def addresses(repository: str, version: str) -> dict[str, str]:
    """Return the addresses of a version of the project."""
    files = f"{repository}/blob/v{version}"
    places = (f"{files}/CHANGELOG.md", f"{files}/docs/index.md", f"{repository}/issues", repository)
    return dict(zip(URLS, places, strict=True))


def main() -> int:
    """Write the addresses, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    options = parser.parse_args()
    repository = options.address.rstrip("/")
    if not _ADDRESS.fullmatch(repository):
        parser.error(f"`{options.address}` is not an address such as https://example.com/owner/ctrlhost")
    file = options.tree / "pyproject.toml"
    text = read(file)
    if "urls" in tomllib.loads(text)["project"]:
        parser.error(f"{file} has [project.urls] already")
    lines = [f'{name} = "{address}"' for name, address in addresses(repository, version_of(options.tree)).items()]
    file.write_text("\n".join([text.rstrip("\n"), "", "[project.urls]", *lines, ""]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
