"""The kubeconfig for stock clients."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

import yaml

CONTEXT = "ctrlhost-sandbox"


def write(path: Path, *, url: str, ca: str | None, token: str | None, namespace: str = "default") -> None:
    """Write a kubeconfig for `url` atomically, readable by its owner only."""
    cluster: dict[str, str] = {"server": url}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca.encode()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": {} if token is None else {"token": token}}],
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
