"""Kubeconfigs and service accounts on disk, and the connection that they describe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ctrlhost.kubeconfig.connection import Connection
from ctrlhost.kubeconfig.load import load_connection


def kubeconfig(cluster: dict[str, Any], user: dict[str, Any] | None = None, **context: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "k", "user": "u", **context}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
    }


def written(folder: Path, content: Any, name: str = "config") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def find(tmp_path: Path, environ: dict[str, str] | None = None, **options: Any) -> Connection:
    nowhere = tmp_path / "nowhere"
    return load_connection(environ=environ or {}, **{"service_account": nowhere, "home": nowhere, **options})


def service_account(tmp_path: Path) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("inside\n")
    (folder / "namespace").write_text("mine")
    return folder
