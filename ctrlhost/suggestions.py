"""Hints for names that are unknown: the nearest known one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the known name that is most like `name`, None if none is; case, `-` and `_` do not count.

    `least` is the part of the letters that both must have, from 0 to 1.
    """
    # Here, since only an error needs it.
    import difflib

    spelt = {_plain(name): name for name in sorted(known)}
    close = difflib.get_close_matches(_plain(name), spelt, n=1, cutoff=least)
    return spelt[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the question for the nearest known name, None without one; `least` as for `nearest`."""
    near = nearest(name, known, least=least)
    return f"did you mean `{near}`?" if near is not None else None


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return a hint for a name that is not among `known`: the nearest one, or all of them; None if there are none."""
    names = sorted(known)
    return did_you_mean(name, names) or (f"known: {', '.join(names)}" if names else None)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
