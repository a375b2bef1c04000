"""Find and read the configuration of a cluster: a flag, `$KUBECONFIG`, the pod's service account, `~/.kube/config`.

The file is not read by `kubernetes.config`, which needs a second of imports, ignores certificates that an exec plugin
renews, and names neither the file nor the entry that is invalid. It only handles user entries with an `auth-provider`.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlhost.errors import ConfigError
from ctrlhost.kubeconfig.configuration import new_configuration
from ctrlhost.kubeconfig.connection import Certificate, Connection, check_address, without_secrets
from ctrlhost.kubeconfig.credentials import TokenFile
from ctrlhost.kubeconfig.file import KubeConfig
from ctrlhost.kubeconfig.user import user_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("ctrlhost.client.kubeconfig")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_connection(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    home: Path | None = None,
) -> Connection:
    """Find the cluster and log the source of its address; ConfigError names the file and the problem."""
    named = [Path(name).expanduser() for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    usual = (home or Path.home()) / ".kube" / "config"
    if kubeconfig is not None:
        connection = from_files([Path(kubeconfig).expanduser()], context, "--kubeconfig")
    elif named:
        present = [path for path in named if path.exists()]
        if not present:
            raise ConfigError(
                f"$KUBECONFIG names {os.pathsep.join(map(str, named))}, which does not exist",
                hint="correct the variable, or name a file with `--kubeconfig FILE`",
            )
        connection = from_files(present, context, "$KUBECONFIG")
    elif environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        connection = in_cluster(environ, service_account)
    elif usual.exists():
        connection = from_files([usual], context, "the default path")
    else:
        raise ConfigError(
            "no cluster is configured: no --kubeconfig, no $KUBECONFIG, not inside a cluster, no ~/.kube/config",
            hint="choose one with `--kubeconfig FILE`, or try `--sandbox`, which needs none",
        )
    connection.check()
    log.info("cluster %s from %s", connection.url, connection.source)
    return connection


def from_files(paths: list[Path], context: str | None, found_by: str) -> Connection:
    """Return the connection of a context; the first file that defines a name wins, as for kubectl."""
    config = KubeConfig.read(paths)
    name, entry = config.context(context)
    cluster = config.named("clusters", entry.text("cluster"), entry)
    source = f"context `{name}` of {cluster.file_name} ({found_by})"
    server, proxy = cluster.text("server").rstrip("/"), cluster.optional_text("proxy-url")
    # Before the official client's class parses it.
    check_address(server, source)
    if proxy is not None and "://" not in proxy:
        raise cluster.error(
            "proxy-url", f"must be a URL with http://, https:// or socks5://, got {without_secrets(proxy)!r}"
        )
    configuration = new_configuration(
        host=server,
        tls_server_name=cluster.optional_text("tls-server-name"),
        proxy=proxy,
        verify_ssl=not cluster.flag("insecure-skip-tls-verify"),
        ssl_ca_cert=None if cluster.has("certificate-authority-data") else cluster.file("certificate-authority"),
        ca_cert_data=cluster.base64("certificate-authority-data"),
    )
    connection = Connection(configuration, source, namespace=entry.optional_text("namespace") or "default")
    user = entry.optional_text("user")
    if user:
        connection.user = user
        user_credentials(connection, config.named("users", user, entry), cluster, paths, name)
    return connection


def in_cluster(environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Connection:
    """Return the connection of the pod's service account; its token is read again when the kubelet renews it."""
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"[{host}]" if ":" in host else host
    configuration = new_configuration(host=f"https://{address}:{port}", ssl_ca_cert=str(service_account / "ca.crt"))
    namespace = service_account / "namespace"
    return Connection(
        configuration,
        f"the pod's service account in {service_account}",
        TokenFile(service_account / "token"),
        Certificate(),
        namespace.read_text(encoding="utf-8").strip() if namespace.exists() else "default",
    )
