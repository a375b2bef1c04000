"""The text of an error that a plugin raised, as one line of bounded length."""

from __future__ import annotations

from ctrlhost.errors import CtrlhostError

#: Characters of a message; the log has the whole one with the traceback.
LIMIT = 2_000


def line_of(error: BaseException) -> str:
    """Return the class, the message and the hint of an error as one line, even if its `__str__` raises.

    The message is cut to 2,000 characters.
    """
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001 - its `__str__` is the plugin's code, too
        message = ""
    # Cut first: a message may have any length.
    cut = message[: LIMIT + 1]
    line = " ".join(cut.split())
    line = f"{line[:LIMIT]} …" if len(cut) > LIMIT else line
    line = f"{type(error).__name__}: {line}".rstrip(": ")
    hint = error.hint if isinstance(error, CtrlhostError) else None
    return encodable(f"{line} (hint: {hint})" if isinstance(hint, str) else line)


def encodable(text: str) -> str:
    """Return a text without lone surrogates, which no encoding has: each becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
