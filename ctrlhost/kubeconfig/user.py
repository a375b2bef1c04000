"""Convert a kubeconfig's user entry to a certificate and credentials, in kubectl's order: token, basic, exec."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ctrlhost.errors import ConfigError
from ctrlhost.kubeconfig.connection import Certificate, Connection
from ctrlhost.kubeconfig.credentials import ConfigurationHook, StaticHeader, TokenFile, basic_authorization
from ctrlhost.kubeconfig.exec_credentials import ExecConfig, ExecPlugin
from ctrlhost.kubeconfig.file import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator


def user_credentials(connection: Connection, user: Entry, cluster: Entry, paths: list[Path], context: str) -> None:
    """Set the connection's credentials and certificate from `user`."""
    connection.headers = tuple(_impersonation(user))
    connection.certificate = _certificate(user)
    token_file = user.optional_text("tokenFile")
    token = user.optional_text("token")
    if token_file is not None:
        # The file wins over an inline token, as in kubectl: another program renews it.
        connection.credentials = TokenFile(user.file_name.parent / Path(token_file).expanduser())
    elif token is not None:
        token = token.strip()
        if not (token.isascii() and token.isprintable()):
            raise user.error("token", "contains characters that are invalid in a header")
        connection.credentials = StaticHeader(f"Bearer {token}")
    elif user.has("username") and user.has("password"):
        connection.credentials = basic_authorization(user.text("username"), user.text("password"))
    elif user.has("exec"):
        program = _exec_config(user.entry("exec"), cluster, connection)
        connection.credentials = ExecPlugin(program, on_certificate=connection.certificate.replace)
    elif user.has("auth-provider"):
        connection.credentials = _auth_provider(user, paths, context)


def _impersonation(user: Entry) -> Iterator[tuple[str, str]]:
    """Return the headers that make the server treat the requests as another user's.

    Raises ConfigError for a group, uid or extra without a user: the requests would be those of the bare user.
    """
    if not user.has("as"):
        for name in ("as-uid", "as-groups", "as-user-extra"):
            if user.value.get(name):
                raise user.error(name, "needs `as`, the user to impersonate")
        if "as" in user.value:
            raise user.error("as", "must not be empty")
        return
    yield "Impersonate-User", _header_text(user, "as", user.text("as"))
    if user.has("as-uid"):
        yield "Impersonate-Uid", _header_text(user, "as-uid", user.text("as-uid"))
    for group in _texts(user, "as-groups", user.value.get("as-groups") or []):
        yield "Impersonate-Group", group
    extra = user.value.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise user.error("as-user-extra", "must map names to lists of texts")
    for name, values in extra.items():
        key = quote(str(name), safe="!#$&'*+-.^_`|~")
        for value in _texts(user, f"as-user-extra.{name}", values):
            yield f"Impersonate-Extra-{key}", value


def _texts(user: Entry, name: str, values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise user.error(name, "must be a list of texts")
    return [_header_text(user, name, value) for value in values]


def _header_text(user: Entry, name: str, value: str) -> str:
    """Return a text as the characters of a header, which are bytes."""
    if not value.isprintable():
        raise user.error(name, "contains characters that are invalid in a header")
    return value.encode("utf-8").decode("latin-1")


def _certificate(user: Entry) -> Certificate:
    missing = "is missing; the certificate and its key are required together"
    cert_data, key_data = user.base64("client-certificate-data"), user.base64("client-key-data")
    if cert_data is None:
        cert, key = user.file("client-certificate"), user.file("client-key")
        if cert is not None and key_data is not None:
            cert_data = Path(cert).read_text(encoding="ascii", errors="replace")
        elif (cert is None) != (key is None):
            raise user.error("client-key" if cert else "client-certificate", missing)
        else:
            return Certificate(cert, key)
    if key_data is None:
        key = user.file("client-key")
        if key is None:
            raise user.error("client-key-data", missing)
        key_data = Path(key).read_text(encoding="ascii", errors="replace")
    return Certificate(cert_pem=cert_data, key_pem=key_data)


def _exec_config(entry: Entry, cluster: Entry, connection: Connection) -> ExecConfig:
    args = entry.value.get("args") or []
    if not isinstance(args, list):
        raise entry.error("args", "must be a list")
    variables: dict[str, str] = {}
    for position, item in enumerate(entry.value.get("env") or []):
        variable = Entry(item, entry.file_name, f"{entry.where}.env[{position}]")
        variables[variable.text("name")] = _plain_text(variable.value.get("value"))
    if entry.optional_text("interactiveMode") == "Always":
        raise entry.error("interactiveMode", "is Always, but nobody can answer the program's questions")
    command = entry.text("command")
    if os.sep in command:
        command = str(entry.file_name.parent / Path(command).expanduser())
    if shutil.which(command, path=variables.get("PATH", os.environ.get("PATH"))) is None:
        problem = "not executable" if os.sep in command and Path(command).exists() else "not installed"
        raise ConfigError(
            f"kubeconfig {entry.file_name}: {entry.where}: `{command}` is {problem}",
            hint=entry.optional_text("installHint"),
        )
    return ExecConfig(
        command=command,
        args=[_plain_text(argument) for argument in args],
        env=variables,
        api_version=entry.text("apiVersion"),
        where=f"kubeconfig {entry.file_name}: {entry.where}",
        cluster=_cluster_info(cluster, connection) if entry.flag("provideClusterInfo") else None,
        install_hint=entry.optional_text("installHint"),
    )


def _plain_text(value: Any) -> str:
    """Return a value as a text; null is an empty one."""
    return "" if value is None else str(value)


def _cluster_info(cluster: Entry, connection: Connection) -> dict[str, Any]:
    """Return what the program learns of the cluster, as from client-go: the CA as data, and `config` in any case."""
    info: dict[str, Any] = {"server": connection.url}
    for name in ("tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url"):
        if cluster.has(name):
            info[name] = cluster.value[name]
    ca = cluster.file("certificate-authority")
    if ca is not None and not cluster.has("certificate-authority-data"):
        info["certificate-authority-data"] = base64.b64encode(Path(ca).read_bytes()).decode()
    info["config"] = None
    for extension in cluster.value.get("extensions") or []:
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _auth_provider(user: Entry, paths: list[Path], context: str) -> ConfigurationHook:
    """Return the token of the official client for the old providers (`gcp`, `oidc`), which need its OAuth libraries."""
    try:
        from kubernetes import client
        from kubernetes import config as official
    except ImportError:
        missing = user.error("auth-provider", "needs the package `kubernetes`, which is not installed")
        missing.hint = "install it with `pip install kubernetes`"
        raise missing from None

    configuration = client.Configuration()
    try:
        official.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=os.pathsep.join(map(str, paths)),
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
    except Exception as error:
        # Its loader raises any exception for entries that lack an expected field.
        reason = error if isinstance(error, official.ConfigException) else f"{type(error).__name__}: {error}"
        raise user.error("auth-provider", f"is unusable: {reason}") from error
    return ConfigurationHook(configuration)
