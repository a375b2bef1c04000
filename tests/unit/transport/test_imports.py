"""The HTTP libraries that a host neither imports nor requires."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.behaviour("scale/SC26")
def test_no_http_library_of_python_is_imported_or_required() -> None:
    code = (
        "import pkgutil, sys, ctrlhost, ctrlhost_bitcoin, ctrlhost_hostname, ctrlhost_ingress_status, ctrlhost_naming\n"
        "from ctrlhost.client import Client\n"
        "from ctrlhost.host.host import Host\n"
        "from ctrlhost.host import child\n"
        "from ctrlhost_sandbox import Sandbox\n"
        "with Sandbox(insecure_http=True, controllers=()) as sandbox:\n"
        "    client = Client.load(sandbox.kubeconfig)\n"
        "    client.get('v1', 'Namespace', 'default')\n"
        "    client.transport.stream('/api/v1/namespaces').close()\n"
        "print(sorted({'urllib3', 'httptools', 'socks', 'kubernetes'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    every = [*project["dependencies"], *optional]
    names = {re.match(r"[\w.-]+", requirement).group().lower() for requirement in every}  # type: ignore[union-attr]
    assert not names & {"urllib3", "httptools", "pysocks"}
