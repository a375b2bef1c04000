"""The error of an embedded API server that cannot start as asked."""

from __future__ import annotations


class SandboxError(Exception):
    """An option, the kubeconfig's path or the data directory cannot be used; `hint` is advice for the user, or None."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Set the message and the advice."""
        super().__init__(message)
        self.message = message
        self.hint = hint
