"""What of kopf this package does not support: refused when an operator is imported, never ignored in silence."""

from __future__ import annotations

import ctrlhost

#: The page that says what is supported.
PAGE = "docs/how-to/from-kopf.md"


class NotSupported(ctrlhost.ConfigError, ImportError):
    """An operator needs what is not supported."""

    def __init__(self, what: str, section: str = "limits") -> None:
        """Name what is not supported, and the section of the page that says what to do."""
        super().__init__(
            f"{what} is not supported", hint=f"see {PAGE}#{section}; kopf itself runs the operator beside the host"
        )
