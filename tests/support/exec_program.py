"""A program of an exec plugin, which the test steers."""

from __future__ import annotations

import stat
import sys
from typing import TYPE_CHECKING

from tests.support.gates import Gate

if TYPE_CHECKING:
    from pathlib import Path

EXEC = "client.authentication.k8s.io/v1"

#: Counts its runs, and for each waits at the gate `hold` if there is one and fails while the file `fail` exists.
_SOURCE = """
import contextlib, json, pathlib, sys
folder = pathlib.Path(__file__).parent
runs = folder / "runs"
with runs.open("a") as file:
    file.write("x")
number = runs.stat().st_size
with contextlib.suppress(FileNotFoundError):
    (folder / "hold").open().close()
if (folder / "fail").exists():
    sys.exit("first line\\nthe login has expired")
status = {"token": (folder / "token").read_text().format(number=number)}
if (folder / "expires").exists():
    status["expirationTimestamp"] = (folder / "expires").read_text().format(number=number)
for name, field in (("certificate", "clientCertificateData"), ("key", "clientKeyData")):
    if (folder / name).exists():
        status[field] = (folder / name).read_text()
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


class ExecProgram:
    """The program in its folder, and the state that steers it: the files `token`, `expires`, `certificate`, `key` and
    `fail`.

    `{number}` in `token` and `expires` stands for the number of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "login"
        self.path.write_text(f"#!{sys.executable}\n{_SOURCE}", encoding="utf-8")
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)
        self.set("token", "token-{number}")
        self._gate: Gate | None = None

    @property
    def user(self) -> dict[str, object]:
        """A user of a kubeconfig with this program."""
        return {"exec": {"apiVersion": EXEC, "command": str(self.path)}}

    @property
    def runs(self) -> int:
        runs = self.folder / "runs"
        return runs.stat().st_size if runs.exists() else 0

    def set(self, name: str, text: str = "") -> None:
        # Renamed into place, so that a run never reads half a file.
        (self.folder / "new").write_text(text, encoding="utf-8")
        (self.folder / "new").rename(self.folder / name)

    def clear(self, name: str) -> None:
        (self.folder / name).unlink()

    def hold(self) -> None:
        """Hold runs until `release`."""
        self._gate = Gate(self.folder / "hold")

    def release(self) -> None:
        """Release the runs; later ones do not wait."""
        assert self._gate is not None
        self._gate.open()
        self.clear("hold")

    def close(self) -> None:
        if self._gate is not None:
            self._gate.close()
