"""The kubeconfig for stock clients."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

import yaml

CONTEXT = "ctrlhost-sandbox"


def write(
    path: Path,
    *,
    url: str,
    ca: str | None,
    token: str | None,
    certificate: tuple[str, str] = ("", ""),
    namespace: str = "default",
) -> None:
    """Write a kubeconfig for `url` atomically, readable by its owner only.

    The user has a token, a client's `certificate` with its key, both as PEM, or all of these.
    """
    cluster: dict[str, str] = {"server": url}
    if ca is not None:
        cluster["certificate-authority-data"] = _encoded(ca)
    user = {} if token is None else {"token": token}
    if all(certificate):
        user["client-certificate-data"], user["client-key-data"] = map(_encoded, certificate)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": user}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace}}],
        "current-context": CONTEXT,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp opens with mode 0600, so the token is never readable by others.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yaml.safe_dump(config, file, sort_keys=False)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
