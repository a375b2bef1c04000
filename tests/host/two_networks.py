"""Two network namespaces with a cable between them, which a test can cut: no packet passes, and nobody is told."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from types import TracebackType

HERE, THERE = "10.99.0.1", "10.99.0.2"
_MAC = "02:00:00:00:00:0"
_GET = """
import sys, urllib.error, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=30) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


class TwoNetworks:
    """The commands that `here` and `there` begin run in one of the networks. Skips the test if there can be none."""

    def __init__(self) -> None:
        if missing := [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]:
            pytest.skip(f"network namespaces need {', '.join(missing)}")
        private = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
        if subprocess.run([*private, "true"], check=False, capture_output=True).returncode:
            pytest.skip("this machine allows no network namespaces")
        # Each shell holds its network until its standard input ends, which is when the tests end.
        script = "unshare --net sh -c 'echo $$; exec sleep 600' & read -r _; kill \"$!\""
        self._holder = subprocess.Popen([*private, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout is not None
        inner = self._holder.stdout.readline().strip()
        enter = ["nsenter", "--user", "--preserve-credentials", "--net"]
        self.here = [*enter, f"--target={self._holder.pid}"]
        self.there = [*enter, f"--target={inner}"]

    def __enter__(self) -> Self:
        peer = ["peer", "name", "there", "address", f"{_MAC}2", "netns", self.there[-1].partition("=")[2]]
        self._ip(self.here, "link", "add", "here", "address", f"{_MAC}1", "type", "veth", *peer)
        for network, name, own, other, mac in (
            (self.here, "here", HERE, THERE, f"{_MAC}2"),
            (self.there, "there", THERE, HERE, f"{_MAC}1"),
        ):
            self._ip(network, "link", "set", "lo", "up")
            self._ip(network, "address", "add", f"{own}/24", "dev", name)
            self._ip(network, "link", "set", name, "up")
            # Without a permanent entry the kernel would say that the other address is gone.
            self._ip(network, "neighbour", "replace", other, "lladdr", mac, "dev", name, "nud", "permanent")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holder.communicate("", timeout=30)

    @staticmethod
    def _ip(network: list[str], *arguments: str) -> None:
        subprocess.run([*network, "ip", *arguments], check=True, timeout=30)

    def cut(self) -> None:
        """Drop everything that the other side sends."""
        self._ip(self.there, "route", "add", "blackhole", f"{HERE}/32")

    def restore(self) -> None:
        """Pass everything on again."""
        self._ip(self.there, "route", "delete", "blackhole", f"{HERE}/32")

    def get(self, url: str) -> tuple[int, str]:
        """Return the status and the body of a page in the network `here`."""
        done = subprocess.run(
            [*self.here, sys.executable, "-c", _GET, url], check=True, capture_output=True, text=True, timeout=60
        )
        status, _, body = done.stdout.partition(" ")
        return int(status), body
