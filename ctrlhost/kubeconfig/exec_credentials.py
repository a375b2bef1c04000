"""Credentials from a program that the kubeconfig names (`client.authentication.k8s.io`), as cloud providers use."""

from __future__ import annotations

import base64
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
from ctrlhost.typed_json import learn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_EARLY = 60.0
"""Seconds before a credential's end at which a new one is fetched."""

_RUN_LIMIT = 60.0
"""Seconds that the program may take."""


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """What the kubeconfig says about the program; `where` names that place in messages."""

    command: str
    args: Sequence[str]
    env: Mapping[str, str]
    api_version: str
    where: str
    cluster: Mapping[str, Any] | None = None
    install_hint: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


learn(_ExecCredential)


class ExecPlugin:
    """Runs the program when there is no credential, when it is about to expire, and when the server refused it."""

    def __init__(self, config: ExecConfig, *, on_certificate: Callable[[str, str], None] | None = None) -> None:
        """Keep the configuration; `on_certificate(certificate, key)` gets the PEM texts that a program gives."""
        self._config = config
        self._on_certificate = on_certificate
        self._lock = threading.Lock()
        self._status: _Status | None = None
        self._until = 0.0

    def authorization(self) -> str | None:
        """Give the program's token; ConfigError says what went wrong with the program."""
        with self._lock:
            if self._status is None or time.time() >= self._until:
                self._fetch()
            token = self._status.token if self._status else None
        return f"Bearer {token}" if token else None

    def refused(self) -> bool:
        """Run the program again; True if it gave something new."""
        with self._lock:
            before = self._status
            self._fetch()
            return self._status != before

    def _fetch(self) -> None:
        status = self._run()
        if not status.token and not (status.client_certificate_data and status.client_key_data):
            raise ConfigError(
                f"{self._config.where}: `{self._config.command}` gave neither a token nor a certificate with its key"
            )
        self._until = _seconds(status.expiration_timestamp, self._config) - _EARLY
        self._status = status
        if self._on_certificate and status.client_certificate_data and status.client_key_data:
            self._on_certificate(status.client_certificate_data, status.client_key_data)

    def _run(self) -> _Status:
        config = self._config
        info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        if config.cluster is not None:
            info["spec"]["cluster"] = dict(config.cluster)  # type: ignore[index]
        environment = {**os.environ, **config.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            done = subprocess.run(  # noqa: S603 - running the program that the user's kubeconfig names is what is asked for
                [config.command, *config.args],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_RUN_LIMIT,
                check=False,
            )
        except FileNotFoundError as error:
            raise ConfigError(
                f"{config.where}: `{config.command}` is not installed", hint=config.install_hint
            ) from error
        except subprocess.TimeoutExpired as error:
            raise TransportError(
                f"{config.where}: `{config.command}` gave no answer within {_RUN_LIMIT:g} s"
            ) from error
        except OSError as error:
            raise ConfigError(f"{config.where}: `{config.command}` can not be run: {error.strerror}") from error
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            # A good program may fail for a while (no network, a login that ran out), so this is no error of the file.
            last = said[-1] if said else "no message"
            raise TransportError(f"{config.where}: `{config.command}` failed with code {done.returncode}: {last}")
        try:
            answer = msgspec.json.decode(done.stdout, type=_ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{config.where}: `{config.command}` printed no ExecCredential: {error}") from error
        if answer.api_version != config.api_version:
            raise ConfigError(
                f"{config.where}: `{config.command}` answered in {answer.api_version}, not in {config.api_version}"
            )
        return answer.status or _Status()


def _seconds(timestamp: str | None, config: ExecConfig) -> float:
    """Turn RFC 3339 into seconds since the epoch; no timestamp means for ever."""
    if timestamp is None:
        return float("inf")
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError as error:
        raise ConfigError(
            f"{config.where}: expirationTimestamp {timestamp!r} of `{config.command}` is no RFC 3339 time"
        ) from error


def basic_authorization(user: str, password: str) -> str:
    """Give the header's value for a user name and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
