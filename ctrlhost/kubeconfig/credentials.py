"""Who we are to the API server: bearer tokens that change while we run.

Each kind gives the value of the `Authorization` header and can be told that the server refused it. All are safe to use
from any thread; the value is asked for before each request, so the usual case costs a comparison.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_EVERY = 1.0
"""Seconds between two looks at a token's file: the kubelet rotates hourly, and a refused token forces a look."""


class Credentials(Protocol):
    """Gives the `Authorization` header of the next request."""

    def authorization(self) -> str | None:
        """Give the header's value, None to send none."""

    def refused(self) -> bool:
        """Take note that the server answered 401; True if another try may carry something new."""


class NoCredentials:
    """Sends no header: anonymous, or a client certificate says who we are."""

    def authorization(self) -> str | None:
        """Give nothing."""
        return None

    def refused(self) -> bool:
        """Nothing can change."""
        return False


class StaticHeader:
    """A token, or a user name and password, that never changes."""

    def __init__(self, value: str) -> None:
        """Keep the header's value, with its scheme."""
        self._value = value

    def authorization(self) -> str | None:
        """Give the value."""
        return self._value

    def refused(self) -> bool:
        """Nothing can change."""
        return False


class TokenFile:
    """A token that somebody else keeps fresh in a file, as the kubelet does for service accounts."""

    def __init__(self, path: Path) -> None:
        """Read the token; ConfigError if there is none."""
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._token = ""
        self._looked = 0.0
        try:
            self._read()
        except OSError as error:
            raise ConfigError(f"token file {path}: {error.strerror}") from error
        if not self._token:
            raise ConfigError(f"token file {path} is empty")

    def authorization(self) -> str | None:
        """Give the token that the file holds; a file that is gone for a moment leaves the last one in use."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_EVERY:
            with self._lock:
                self._looked = now
                self._try_read()
        return f"Bearer {self._token}"

    def refused(self) -> bool:
        """Read the file again; True if it holds another token."""
        with self._lock:
            before = self._token
            self._stamp = None
            self._try_read()
            return self._token != before

    def _try_read(self) -> None:
        try:
            self._read()
        except OSError:
            return

    def _read(self) -> None:
        found = self._path.stat()
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if stamp == self._stamp:
            return
        token = self._path.read_text(encoding="utf-8", errors="replace").strip()
        if token:
            self._token, self._stamp = token, stamp


class ConfigurationHook:
    """The token of an official `Configuration`, refreshed through its own hook."""

    def __init__(self, configuration: Any) -> None:
        """Keep the configuration; its `refresh_api_key_hook` is called before each request, as officially."""
        self._configuration = configuration
        self._lock = threading.Lock()

    def authorization(self) -> str | None:
        """Give the configuration's token, refreshed where it has a hook."""
        with self._lock:
            return self._value()

    def refused(self) -> bool:
        """Ask the hook once more; True if the token changed."""
        with self._lock:
            before = self._raw()
            return self._value() != before

    def _value(self) -> str | None:
        hook = getattr(self._configuration, "refresh_api_key_hook", None)
        if hook is not None:
            hook(self._configuration)
        return self._raw()

    def _raw(self) -> str | None:
        configuration = self._configuration
        keys = configuration.api_key
        for name in ("BearerToken", "authorization"):
            if keys.get(name):
                prefix = configuration.api_key_prefix.get(name)
                return f"{prefix} {keys[name]}" if prefix else str(keys[name])
        return None
