"""Credentials from a program that the kubeconfig names (`client.authentication.k8s.io`), as cloud providers use."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.errors import ConfigError, TransportError
from ctrlhost.typed_json import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_RENEW_BEFORE = 60.0
"""Seconds before a credential expires at which a new one is requested."""

_RUN_LIMIT = 60.0
"""Seconds that the program may take."""


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """The kubeconfig's entry for the program; `where` names that entry in messages."""

    command: str
    args: Sequence[str]
    env: Mapping[str, str]
    api_version: str
    where: str
    cluster: Mapping[str, Any] | None = None
    install_hint: str | None = None

    def __str__(self) -> str:
        """Return the beginning of a message: the entry and the program."""
        return f"{self.where}: `{self.command}`"


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


class ExecPlugin:
    """Runs the program when there is no credential, when it is about to expire, and when the server rejected it."""

    def __init__(self, config: ExecConfig, *, on_certificate: Callable[[str, str], None] | None = None) -> None:
        """Call `on_certificate(certificate, key)` with the PEM strings if the program returns them."""
        self._config = config
        self._on_certificate = on_certificate
        self._lock = threading.Lock()
        self._status: _Status | None = None
        self._until = 0.0

    def authorization(self) -> str | None:
        """Return the program's token, None for a certificate.

        Raises ConfigError if the program is unusable, TransportError if it failed.
        """
        with self._lock:
            status = self._status
            if status is None or time.time() >= self._until:
                status = self._fetch()
        return f"Bearer {status.token}" if status.token else None

    def refresh(self) -> bool:
        """Run the program again; return whether its answer is new."""
        with self._lock:
            before = self._status
            return self._fetch() != before

    def _fetch(self) -> _Status:
        status = self._run()
        certificate, key = status.client_certificate_data, status.client_key_data
        if not (status.token or (certificate and key)):
            raise ConfigError(f"{self._config} returned neither a token nor a certificate with its key")
        self._until = _seconds(status.expiration_timestamp, self._config) - _RENEW_BEFORE
        self._status = status
        if self._on_certificate and certificate and key:
            self._on_certificate(certificate, key)
        return status

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
            raise ConfigError(f"{config} is not installed", hint=config.install_hint) from error
        except subprocess.TimeoutExpired as error:
            raise TransportError(f"{config} did not answer within {_RUN_LIMIT:g} s") from error
        except OSError as error:
            raise ConfigError(f"{config} cannot be run: {error.strerror}") from error
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            # A working program may fail for a while (no network, an expired login): the file is not at fault.
            last = lines[-1] if lines else "no message"
            raise TransportError(f"{config} failed with code {done.returncode}: {last}")
        try:
            answer: _ExecCredential = decode(done.stdout, _ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{config} printed an invalid ExecCredential: {error}") from error
        if answer.api_version != config.api_version:
            raise ConfigError(f"{config} answered in {answer.api_version}, not in {config.api_version}")
        return answer.status or _Status()


def _seconds(timestamp: str | None, config: ExecConfig) -> float:
    """Convert RFC 3339 to seconds since the epoch; a missing timestamp means forever."""
    if timestamp is None:
        return float("inf")
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError as error:
        raise ConfigError(f"{config} returned an expirationTimestamp that is not RFC 3339: {timestamp!r}") from error
