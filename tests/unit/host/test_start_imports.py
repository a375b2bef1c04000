"""What is imported before a host has asked the first list: nothing that the first list does not need.

`python -m tests.unit.host.test_start_imports` writes the list anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("start_imports.txt")

#: A host with one plugin, whose API server refuses connections, prints what it has imported when it has asked.
PROGRAM = """
import json, sys
import ctrlhost
from ctrlhost.client import Client
from ctrlhost.host.host import Host
from ctrlhost.informers import InformerFactory

start, imported = InformerFactory.start, []

def asks(factory):
    start(factory)
    imported.extend(sys.modules)

InformerFactory.start = asks

class Noop:
    @ctrlhost.hookimpl
    def ctrlhost_setup(self, plugin):
        plugin.add_controller("noop", lambda context, request: None, ctrlhost.For("v1", "Pod"))

host = Host(plugins=[Noop()], client=Client.load(sys.argv[1]))
host.start()
host.stop(0)
print(json.dumps(imported))
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: nobody, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
current-context: nobody
users: [{name: nobody, user: {}}]
"""


def imported(folder: Path) -> list[str]:
    """Return the modules of ctrlhost, and the packages of others but for Python's own."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    command = [sys.executable, "-I", "-c", PROGRAM, str(kubeconfig)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    names: list[str] = json.loads(done.stdout)
    ours = {name for name in names if name.partition(".")[0] == "ctrlhost"}
    others = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"ctrlhost", "__main__"}
    # What an interpreter imports by itself: hooks of editable installations and of coverage.
    return sorted(ours | {name for name in others if not name.startswith(("_", "sitecustomize", "coverage"))})


@pytest.mark.behaviour("faster/FA4")
def test_the_modules_imported_before_the_first_list_is_asked(tmp_path: Path) -> None:
    assert imported(tmp_path) == LIST.read_text().split()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        LIST.write_text("\n".join(imported(Path(made))) + "\n")
