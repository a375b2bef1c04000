"""Credentials from a program that the kubeconfig names (`client.authentication.k8s.io`), as cloud providers use."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.clock import doubling
from ctrlhost.errors import ConfigError, CtrlhostError, TransportError
from ctrlhost.kubeconfig.expiry import earliest, token_expiry
from ctrlhost.typed_json import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_RENEW_BEFORE = 60.0
"""Seconds before a credential expires at which a new one is requested; a fifth of its life if that is less."""

_EXPIRED_PAUSE = 1.0
"""Seconds between two runs of a program whose credentials have expired on arrival."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds for which a failure is remembered; each further one doubles them."""

_REJECTION_PAUSE = 10.0
"""Seconds after a rejection in which another one does not run the program."""

_RUN_LIMIT = 60.0
"""Seconds that the program may take."""


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """The kubeconfig's entry for the program; `where` names that entry in messages."""

    command: str
    #: They may contain passwords.
    args: Sequence[str] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    api_version: str
    where: str
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    install_hint: str | None = None

    def __str__(self) -> str:
        """Return the beginning of a message: the entry and the program."""
        return f"{self.where}: `{self.command}`"


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None

    def __repr__(self) -> str:
        """Return a text without the token and the key."""
        return "_Status()"


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


class ExecPlugin:
    """Runs the program when there is no credential, before one expires, and when the server rejected it.

    It runs on a thread of its own, once however many requests need it. Methods may be called from any thread.
    """

    def __init__(self, config: ExecConfig, *, on_certificate: Callable[[str, str], None] | None = None) -> None:
        """Call `on_certificate(certificate, key)` with the PEM strings if the program returns them."""
        self._config = config
        self._on_certificate = on_certificate
        #: Called after each run with its exit code and outcome, as client-go counts them.
        self.on_call: Callable[[int, str], None] = lambda _code, _status: None
        self._changed = threading.Condition()
        self._running = False
        self._status: _Status | None = None
        #: When to renew the credential, and until when it may be used, in seconds since the epoch.
        self._renew_at = self._usable_until = 0.0
        #: When the program said that the credential expires; None if it did not.
        self._expires: float | None = None
        #: The last failure, until when it is remembered by `time.monotonic`, and for how long the next ones are.
        self._failure: CtrlhostError | None = None
        self._failed_until, self._pauses = 0.0, doubling(_FIRST_PAUSE, _LONGEST_PAUSE)
        #: When a rejection last ran the program, by `time.monotonic`.
        self._rejected_at = float("-inf")

    def authorization(self, timeout: float) -> str | None:
        """Return the program's token, None for a certificate; wait for the program only without a usable credential.

        Raises ConfigError if the program is unusable, TransportError if it failed or takes longer than `timeout`
        seconds.
        """
        with self._changed:
            status, now = self._status, time.time()
            if status is None or now >= self._usable_until:
                self._start(required=True)
                status = self._wait(timeout)
            elif now >= self._renew_at:
                self._start(required=False)
            return _header(status)

    def ready(self) -> bool:
        """Return whether there is a credential that can be used."""
        with self._changed:
            return self._status is not None and time.time() < self._usable_until

    def refresh(self, rejected: str | None, timeout: float) -> bool:
        """Run the program after the server rejected a header; return whether there is another credential.

        It does not run if the rejected one was replaced meanwhile, nor twice within ten seconds.
        """
        with self._changed:
            before = self._status
            if before is None or _header(before) != rejected:
                return before is not None
            if not self._running:
                if time.monotonic() - self._rejected_at < _REJECTION_PAUSE:
                    return False
                self._rejected_at = time.monotonic()
                self._start(required=True)
            return self._wait(timeout) != before

    def expiry(self) -> float | None:
        """Return when the program's token expires."""
        with self._changed:
            if self._status is None or self._status.token is None:
                return None
            return earliest(self._expires, token_expiry(_header(self._status)))

    @property
    def has_certificate(self) -> bool:
        """Whether the program has returned a certificate."""
        with self._changed:
            return self._status is not None and self._status.client_certificate_data is not None

    def _start(self, *, required: bool) -> None:
        """Start the program unless it runs; raise the last failure while it is remembered and `required`."""
        if self._running:
            return
        if self._failure is not None and time.monotonic() < self._failed_until:
            if required:
                raise self._failure
            return
        self._running = True
        try:
            threading.Thread(target=self._fetch, name="exec credentials", daemon=True).start()
        except RuntimeError as error:
            # The process may have no more threads now; the next run is after the pause of a failure.
            self._finish(None, 0.0, TransportError(f"{self._config} cannot be run: {error}", sent=False))

    def _wait(self, timeout: float) -> _Status:
        """Return the credential after the end of the run, or raise its failure."""
        if not self._changed.wait_for(lambda: not self._running, timeout):
            raise TransportError(f"{self._config} did not answer within {timeout:.3g} s", sent=False)
        if self._failure is not None or self._status is None:
            raise self._failure or TransportError(f"{self._config} returned nothing", sent=False)
        return self._status

    def _fetch(self) -> None:
        status: _Status | None = None
        expires = 0.0
        failure: CtrlhostError | None = None
        try:
            status, expires = self._answer()
        except CtrlhostError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - whatever happens, the requests must not wait for ever
            failure = TransportError(f"{self._config}: {error}", sent=False)
        self._finish(status, expires, failure)

    def _finish(self, status: _Status | None, expires: float, failure: CtrlhostError | None) -> None:
        """Note the end of a run, with its credential or its failure."""
        with self._changed:
            self._running = False
            self._failure = failure
            if status is None:
                self._failed_until = time.monotonic() + next(self._pauses)
            else:
                self._pauses = doubling(_FIRST_PAUSE, _LONGEST_PAUSE)
                self._keep(status, expires)
            self._changed.notify_all()

    def _keep(self, status: _Status, expires: float) -> None:
        now = time.time()
        self._status, self._expires = status, expires if expires < float("inf") else None
        if expires > now:
            self._renew_at = expires - min(_RENEW_BEFORE, (expires - now) / 5)
            self._usable_until = expires
        else:
            # The program's clock or this machine's is wrong; the server decides.
            self._renew_at, self._usable_until = now + _EXPIRED_PAUSE, float("inf")

    def _answer(self) -> tuple[_Status, float]:
        """Return the program's credential and its expiry, in seconds since the epoch."""
        status = self._run()
        certificate, key = status.client_certificate_data, status.client_key_data
        if not (status.token or (certificate and key)):
            raise ConfigError(f"{self._config} returned neither a token nor a certificate with its key")
        expires = _seconds(status.expiration_timestamp, self._config)
        if self._on_certificate and certificate and key:
            self._on_certificate(certificate, key)
        return status, expires

    def _run(self) -> _Status:
        config = self._config
        spec: dict[str, Any] = {"interactive": False}
        if config.cluster is not None:
            spec["cluster"] = dict(config.cluster)
        info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
        try:
            done = subprocess.run(  # noqa: S603 - the user's kubeconfig names the program to run
                [config.command, *config.args],
                env={**os.environ, **config.env, "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_RUN_LIMIT,
                check=False,
            )
        except FileNotFoundError as error:
            self.on_call(1, "plugin_not_found_error")
            raise ConfigError(f"{config} is not installed", hint=config.install_hint) from error
        except subprocess.TimeoutExpired as error:
            self.on_call(1, "client_internal_error")
            raise TransportError(f"{config} did not answer within {_RUN_LIMIT:g} s", sent=False) from error
        except OSError as error:
            self.on_call(1, "plugin_not_found_error")
            raise ConfigError(f"{config} cannot be run: {error.strerror}") from error
        # Go's code of a program that a signal has ended is -1.
        self.on_call(max(done.returncode, -1), "plugin_execution_error" if done.returncode else "no_error")
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            # A working program may fail for a while (no network, an expired login): the file is not at fault.
            last = lines[-1] if lines else "no message"
            raise TransportError(f"{config} failed with code {done.returncode}: {last}", sent=False)
        try:
            answer: _ExecCredential = decode(done.stdout, _ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{config} printed an invalid ExecCredential: {error}") from error
        if answer.api_version != config.api_version:
            raise ConfigError(f"{config} answered in {answer.api_version}, not in {config.api_version}")
        return answer.status or _Status()


def _header(status: _Status) -> str | None:
    return f"Bearer {status.token}" if status.token else None


def _seconds(timestamp: str | None, config: ExecConfig) -> float:
    """Convert RFC 3339 to seconds since the epoch; a missing timestamp means forever."""
    if timestamp is None:
        return float("inf")
    try:
        expires = datetime.fromisoformat(timestamp)
        if expires.tzinfo is not None:
            return expires.timestamp()
        cause = None
    except ValueError as error:
        cause = error
    raise ConfigError(f"{config} returned an expirationTimestamp that is not RFC 3339: {timestamp!r}") from cause
