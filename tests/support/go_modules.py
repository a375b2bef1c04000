"""Files of published Go modules, downloaded at test time into .cache and compared with a pinned sum."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

TABLE = Path(__file__).with_name("published_crds.toml")
_ROOT = Path(__file__).parents[2]
_TOOLCHAIN = _ROOT / "tests/go/bin/toolchain/bin/go"
_CACHE = _ROOT / ".cache" / "go-modules"


@dataclass(frozen=True, slots=True)
class Published:
    """The CRDs of a module, and objects of their kinds."""

    name: str
    module: str
    sum: str
    crds: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def directory(self) -> Path:
        """The directory of the module, downloaded if it is missing."""
        return downloaded(self.module, self.sum)

    def definitions(self) -> list[dict[str, Any]]:
        """Return the CRDs."""
        crds = (obj for obj in self._objects(self.crds) if obj.get("kind") == "CustomResourceDefinition")
        return list({crd["metadata"]["name"]: crd for crd in crds}.values())

    def instances(self) -> list[dict[str, Any]]:
        """Return the objects of the CRDs' kinds in the examples, served versions or not."""
        kinds = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]) for crd in self.definitions()}
        return [
            obj
            for obj in self._objects(self.examples)
            if (str(obj.get("apiVersion")).partition("/")[0], obj.get("kind")) in kinds
        ]

    def _objects(self, patterns: tuple[str, ...]) -> list[dict[str, Any]]:
        files = sorted({file for pattern in patterns for file in self.directory.glob(pattern)})
        return [document for file in files for document in _documents(file.read_text(encoding="utf-8"))]


def _documents(text: str) -> list[dict[str, Any]]:
    """Return the objects of a file; templates, which are not valid YAML, have none."""
    try:
        documents = list(yaml.load_all(text, yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError):
        return []
    return [document for document in documents if isinstance(document, dict)]


def published() -> list[Published]:
    """Return the table of modules with CRDs."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["module"]
    return [
        Published(row["name"], row["module"], row["sum"], tuple(row["crds"]), tuple(row.get("examples", ())))
        for row in rows
    ]


@cache
def downloaded(module: str, wanted: str) -> Path:
    """Return the directory of `module`, which has a version; skip the test if it cannot be had, fail it in CI."""
    go = str(_TOOLCHAIN) if _TOOLCHAIN.exists() else shutil.which("go")
    if go is None:
        pytest.skip(f"no Go toolchain to download {module}")
    # The pinned sum takes the place of the checksum database; files of the cache can be removed.
    settings = {"GOMODCACHE": str(_CACHE), "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "GONOSUMDB": "*"}
    with tempfile.TemporaryDirectory() as empty:
        command = [go, "mod", "download", "-json", module]
        answer = subprocess.run(
            command, cwd=empty, capture_output=True, text=True, timeout=600, check=False, env=os.environ | settings
        )
    if answer.returncode:
        pytest.skip(f"cannot download {module}: {answer.stdout[-300:]}{answer.stderr[-300:]}")
    download = json.loads(answer.stdout)
    assert download["Sum"] == wanted, f"{module} has the sum {download['Sum']}, not {wanted}"
    return Path(download["Dir"])


def gateway_api_crds(channel: str = "standard") -> list[dict[str, Any]]:
    """Return the CRDs of a channel of the Gateway API."""
    return next(row for row in published() if row.name == f"gateway-api {channel}").definitions()
