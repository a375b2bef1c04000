"""References to images, as container registries read them."""

from __future__ import annotations

import re

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


def is_latest(image: str) -> bool:
    """Return whether a valid reference names the tag `latest`, or neither a tag nor a digest."""
    match = _REFERENCE.fullmatch(image)
    return match is not None and (match["tag"] == "latest" if match["tag"] else match["digest"] is None)
