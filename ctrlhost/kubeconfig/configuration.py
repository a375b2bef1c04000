"""The address of a server and how to reach it, as plain values under the names of the official client's class.

A loaded `kubernetes.client.Configuration` fits in its place. That package is not imported here: it loads its generated
models, pydantic and three OAuth libraries, over a second and 25 MB.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class Configuration:
    """What a kubeconfig's cluster says."""

    host: str
    #: The path of the CA bundle, or its PEM; without both the system's roots count.
    ssl_ca_cert: str | None = None
    ca_cert_data: str | None = field(default=None, repr=False)
    verify_ssl: bool = True
    #: False: the name in the server's certificate is not compared.
    assert_hostname: bool | None = None
    tls_server_name: str | None = None
    #: The URL of the proxy, which may contain a password, and the servers that need none.
    proxy: str | None = field(default=None, repr=False)
    no_proxy: str | None = None
    #: The variable of the environment that names the proxy; empty for one of the kubeconfig, and without one.
    proxy_variable: str = ""
    proxy_headers: Mapping[str, str] | None = field(default=None, repr=False)


def new_configuration(
    host: str,
    *,
    ssl_ca_cert: str | None = None,
    ca_cert_data: str | None = None,
    verify_ssl: bool = True,
    tls_server_name: str | None = None,
    proxy: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Configuration:
    """Create a configuration; without a `proxy` that of the environment counts."""
    variable = ""
    if not proxy:
        names = (name for name in (f"{_scheme(host)}_proxy", "all_proxy") if _variable(name, environ))
        variable = next(names, "")
        proxy = _variable(variable, environ) if variable else None
    return Configuration(
        host,
        ssl_ca_cert,
        ca_cert_data,
        verify_ssl,
        tls_server_name=tls_server_name,
        proxy=proxy,
        no_proxy=_variable("no_proxy", environ),
        proxy_variable=_spelling(variable, environ) if variable else "",
    )


def _scheme(host: str) -> str:
    try:
        return urlsplit(host).scheme
    except ValueError:
        return ""


def _variable(name: str, environ: Mapping[str, str]) -> str | None:
    """Return a variable of the environment; the name in lower case wins, also when it is empty."""
    return environ.get(name, environ.get(name.upper())) or None


def _spelling(name: str, environ: Mapping[str, str]) -> str:
    """Return the name of a variable as it is set."""
    return name if name in environ else name.upper()
