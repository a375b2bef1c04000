"""Secrets in settings: texts that no page, log line or pickle shows."""

from __future__ import annotations

import hmac
from typing import Final

MASK: Final = "***"


class Secret:
    """A text for settings of plugins, which only `value` shows.

    `str`, `repr`, formatting and pickles have `***` instead. Settings give it as a text, in the environment also as the
    path of a file in `NAME_FILE`, in TOML also as `{file = "/path"}`. TypeError for other types. Immutable; usable from
    any thread.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        """Keep the text."""
        if not isinstance(value, str):
            raise TypeError(f"a secret must be a text, got {type(value).__name__}")
        self._value = value

    @property
    def value(self) -> str:
        """The text itself."""
        return self._value

    def __str__(self) -> str:
        """Return the mask."""
        return MASK

    def __repr__(self) -> str:
        """Return the mask as the argument."""
        return f"Secret({MASK!r})"

    def __format__(self, specification: str) -> str:
        """Format the mask."""
        return format(MASK, specification)

    def __bool__(self) -> bool:
        """Return whether the text is not empty."""
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        """Compare the texts in a time that does not depend on where they differ."""
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        """Return the hash of the text."""
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        """Return the secret itself, which is immutable."""
        return self

    def __deepcopy__(self, _memo: object) -> Secret:
        """Return the secret itself."""
        return self

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        """Pickle the mask: the text is lost."""
        return Secret, (MASK,)
