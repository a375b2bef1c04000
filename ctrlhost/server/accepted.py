"""What the client of a request accepts, by its headers."""

from __future__ import annotations


def accepts_html(header: str) -> bool:
    """Return whether a browser sends this `Accept`: it names HTML among what it takes."""
    return "text/html" in (part.partition(";")[0].strip().lower() for part in header.split(","))


def accepts_gzip(header: str) -> bool:
    """Return whether a client that sends this `Accept-Encoding` wants gzip."""
    for coding in header.lower().split(","):
        name, _, weight = coding.replace(" ", "").partition(";q=")
        if name == "gzip":
            return weight.strip("0.") != "" or not weight
    return False
