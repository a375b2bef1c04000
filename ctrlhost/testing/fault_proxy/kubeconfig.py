"""The kubeconfig of a proxy: the user of another one, with the proxy's address and CA."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ctrlhost.kubeconfig.file import KubeConfig

if TYPE_CHECKING:
    from ctrlhost.kubeconfig.file import Entry

#: The proxy terminates TLS, so it sends the client's certificate to the server itself.
_OF_THE_PROXY = frozenset(
    {"client-certificate", "client-certificate-data", "client-key", "client-key-data", "tokenFile"}
)


def write(target: Path, source: Path, context: str | None, *, url: str, ca: str) -> None:
    """Write to `target` the user of a context of `source`, for the server at `url`."""
    config = KubeConfig.read([source])
    _, entry = config.context(context)
    name = entry.optional_text("user")
    user = _user(config.named("users", name, entry)) if name else {}
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca.encode()).decode()}
    namespace = entry.optional_text("namespace") or "default"
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": cluster}],
        "users": [{"name": "proxy", "user": user}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy", "namespace": namespace}}],
    }
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def _user(entry: Entry) -> dict[str, Any]:
    user = {key: value for key, value in entry.value.items() if key not in _OF_THE_PROXY}
    if token_file := entry.file("tokenFile"):
        user["tokenFile"] = str(Path(token_file).resolve())
    return user
