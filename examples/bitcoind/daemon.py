"""Real bitcoind processes on loopback addresses."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path

from ctrlhost_bitcoin.rpc.client import Credentials, RpcTarget

FETCHED = Path(__file__).parents[2] / ".cache" / "bitcoind" / "bitcoind"
RPC_PORT, P2P_PORT = 18443, 18444


def find_bitcoind() -> Path:
    """Return the program: `$BITCOIND`, the one on the path, or that of `make real-tools`.

    FileNotFoundError, with a hint, if it is missing, or if the loopback network has only one address.
    """
    if not sys.platform.startswith("linux"):
        raise FileNotFoundError("only Linux answers on all addresses of 127.0.0.0/8")
    named = os.environ.get("BITCOIND") or shutil.which("bitcoind")
    program = Path(named) if named else FETCHED
    if not program.exists():
        raise FileNotFoundError(f"{program} is missing: run `make real-tools`, or set $BITCOIND")
    return program


class Addresses:
    """Loopback addresses that no other test process uses; the one free for longest comes first."""

    def __init__(self) -> None:
        """Choose a network by the id of this process."""
        pid = os.getpid()
        network = f"127.{1 + pid % 250}.{1 + pid // 250 % 250}"
        self._free = deque(f"{network}.{host}" for host in range(10, 251))

    def take(self, wanted: str | None = None) -> str:
        """Take an address; `wanted` only if it is free."""
        if wanted is None:
            return self._free.popleft()
        self._free.remove(wanted)
        return wanted

    def give_back(self, address: str) -> None:
        """Return an address; it comes after all that are free now."""
        self._free.append(address)


class Bitcoind:
    """A regtest daemon with its own data directory."""

    def __init__(
        self,
        program: Path,
        host: str,
        *,
        user: str = "user",
        password: str = "password",
        rpc_port: int = RPC_PORT,
        p2p_port: int = P2P_PORT,
    ) -> None:
        """Start `program` at the address `host`."""
        self.host, self.p2p_port = host, p2p_port
        self.target = RpcTarget(host, rpc_port, Credentials(user, password))
        self._directory = tempfile.TemporaryDirectory(prefix="bitcoind-")
        options = {
            "datadir": self._directory.name,
            "bind": f"{host}:{p2p_port}",
            "rpcbind": host,
            "rpcallowip": "127.0.0.0/8",
            "rpcport": rpc_port,
            "rpcuser": user,
            "rpcpassword": password,
            "listen": 1,
            "disablewallet": 1,
            "dns": 0,
            "dnsseed": 0,
            "natpmp": 0,
            "discover": 0,
            "listenonion": 0,
        }
        self._log = Path(self._directory.name, "output")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, "-regtest", "-server", *(f"-{name}={value}" for name, value in options.items())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """Its output so far."""
        return self._log.read_text(errors="replace")

    def hang(self) -> None:
        """Stop answering, with all connections open."""
        self._process.send_signal(signal.SIGSTOP)
        # Its threads stop one after the other.
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Answer again."""
        self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Terminate it, which takes about a second."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill it and wait until it has ended."""
        self._process.kill()
        self._process.wait(10)

    def close(self) -> None:
        """Kill it in any state, and remove its data."""
        self.kill()
        self._directory.cleanup()
