"""Files of published Go modules, downloaded at test time."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

GATEWAY_API = "sigs.k8s.io/gateway-api@v1.6.3"
_TOOLCHAIN = Path(__file__).parents[1] / "go/bin/toolchain/bin/go"


@cache
def downloaded(module: str) -> Path:
    """Return the directory of `module`, which has a version; skip the test if it cannot be had, fail it in CI."""
    go = str(_TOOLCHAIN) if _TOOLCHAIN.exists() else shutil.which("go")
    if go is None:
        pytest.skip(f"no Go toolchain to download {module}")
    with tempfile.TemporaryDirectory() as empty:
        command = [go, "mod", "download", "-json", module]
        answer = subprocess.run(command, cwd=empty, capture_output=True, text=True, timeout=90, check=False)
    if answer.returncode:
        pytest.skip(f"cannot download {module}: {answer.stdout[-300:]}")
    return Path(json.loads(answer.stdout)["Dir"])


def gateway_api_crds(channel: str = "standard") -> list[dict[str, Any]]:
    """Return the CRDs of a channel of the Gateway API."""
    files = sorted(downloaded(GATEWAY_API).glob(f"config/crd/{channel}/*.yaml"))
    objects = [one for file in files for one in yaml.load_all(file.read_text(), yaml.CSafeLoader) if one]
    return [one for one in objects if one.get("kind") == "CustomResourceDefinition"]
