"""Bearer tokens and other `Authorization` headers, which may change during a run.

All credentials are thread-safe. Their value is read before each request, so the usual case is only a comparison.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.errors import ConfigError
from ctrlhost.kubeconfig.expiry import token_expiry

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("ctrlhost.client.credentials")

_CHECK_INTERVAL = 1.0
"""Seconds between two checks of a token's file: the kubelet rotates hourly, and a 401 forces a check."""


class Credentials(Protocol):
    """The source of the `Authorization` header."""

    def authorization(self, timeout: float) -> str | None:
        """Return the header's value for the next request, None to send none; wait at most `timeout` seconds for it."""

    def ready(self) -> bool:
        """Return whether `authorization` would return without waiting for anything."""

    def refresh(self, rejected: str | None, timeout: float) -> bool:
        """Renew a value that got a 401 within `timeout` seconds; return whether another attempt may carry a new one."""

    def expiry(self) -> float | None:
        """Return when the current token expires, in seconds since the epoch; None if that is unknown."""


class StaticHeader:
    """A token, or a user name and password, that never changes; None for anonymous or a client certificate."""

    def __init__(self, value: str | None = None) -> None:
        """Set the header's value, with its scheme."""
        self._value = value

    def authorization(self, timeout: float) -> str | None:  # noqa: ARG002
        """Return the value."""
        return self._value

    def ready(self) -> bool:
        """Return True."""
        return True

    def refresh(self, rejected: str | None, timeout: float) -> bool:  # noqa: ARG002
        """Return False: the value never changes."""
        return False

    def expiry(self) -> float | None:
        """Return what the token says."""
        return token_expiry(self._value)


def basic_authorization(user: str, password: str) -> StaticHeader:
    """Return the credentials of a user name and a password."""
    return StaticHeader("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii"))


class TokenFile:
    """A token in a file that another program renews, as the kubelet does for service accounts."""

    def __init__(self, path: Path) -> None:
        """Read the token; ConfigError if it is missing."""
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._token = ""
        #: Whether the token was a whole line.
        self._line = False
        #: A file that may be half written, and when it was first seen.
        self._doubted: tuple[tuple[int, int, int], float] | None = None
        self._checked_at = 0.0
        #: Whether the log has said that the file is unusable.
        self._said = False
        try:
            self._read(doubt=False)
        except OSError as error:
            raise ConfigError(f"token file {path}: {error.strerror}") from error
        if not self._token:
            raise ConfigError(f"token file {path} is empty or holds no token")

    def authorization(self, timeout: float) -> str | None:  # noqa: ARG002
        """Return the token in the file; while the file is missing, empty or half written, the last token."""
        now = time.monotonic()
        if now - self._checked_at >= _CHECK_INTERVAL:
            with self._lock:
                self._checked_at = now
                self._reread()
        return f"Bearer {self._token}"

    def ready(self) -> bool:
        """Return True: files are read at once."""
        return True

    def refresh(self, rejected: str | None, timeout: float) -> bool:  # noqa: ARG002
        """Read the file again; return whether it holds another token."""
        with self._lock:
            self._stamp = None
            # Whatever may be half written is better than what the server has rejected.
            self._reread(doubt=False)
            return f"Bearer {self._token}" != rejected

    def expiry(self) -> float | None:
        """Return what the token says."""
        return token_expiry(f"Bearer {self._token}")

    def _reread(self, *, doubt: bool = True) -> None:
        try:
            problem = self._read(doubt)
        except OSError as error:
            problem = error.strerror or str(error)
        if problem and not self._said:
            log.warning("token file %s: %s; using the last token", self._path, problem)
        self._said = bool(problem)

    def _read(self, doubt: bool) -> str:
        """Read the file if it has changed; return why its content cannot be sent, "" if it can.

        With `doubt`, a token that may be half written is not used before it has been the same for a while.
        """
        stat = self._path.stat()
        stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if stamp == self._stamp:
            return ""
        text = self._path.read_text(encoding="utf-8", errors="replace")
        token = text.strip()
        if not (token and token.isascii() and token.isprintable()):
            return "holds no token"
        line = text.endswith("\n")
        if doubt and self._line and not line and not self._settled(stamp):
            return "the end of its line is missing, so it may be half written"
        self._token, self._stamp, self._line = token, stamp, line
        return ""

    def _settled(self, stamp: tuple[int, int, int]) -> bool:
        """Return whether a file in doubt has been the same for a while."""
        now = time.monotonic()
        if self._doubted is None or self._doubted[0] != stamp:
            self._doubted = stamp, now
        return now - self._doubted[1] >= _CHECK_INTERVAL


class ConfigurationHook:
    """The token of an official `Configuration`, refreshed through its own hook."""

    def __init__(self, configuration: Any) -> None:
        """Wrap the configuration; call its `refresh_api_key_hook` before each request, as the official client does."""
        self._configuration = configuration
        self._lock = threading.Lock()

    def authorization(self, timeout: float) -> str | None:  # noqa: ARG002
        """Return the configuration's token, refreshed if it has a hook."""
        with self._lock:
            return self._refreshed()

    def ready(self) -> bool:
        """Return whether there is no hook, which may ask another server."""
        return getattr(self._configuration, "refresh_api_key_hook", None) is None

    def refresh(self, rejected: str | None, timeout: float) -> bool:  # noqa: ARG002
        """Call the hook again; return whether the token changed."""
        with self._lock:
            return self._refreshed() != rejected

    def expiry(self) -> float | None:
        """Return what the token says."""
        return token_expiry(self._current())

    def _refreshed(self) -> str | None:
        hook = getattr(self._configuration, "refresh_api_key_hook", None)
        if hook is not None:
            hook(self._configuration)
        return self._current()

    def _current(self) -> str | None:
        keys, prefixes = self._configuration.api_key, self._configuration.api_key_prefix
        for name in ("BearerToken", "authorization"):
            if keys.get(name):
                return f"{prefixes[name]} {keys[name]}" if prefixes.get(name) else str(keys[name])
        return None
