"""The two programs of a control plane that Go's envtest starts, as programs that run a sandbox.

envtest asks for their flags with `--help`. It starts `etcd` and waits until its `/health` answers, then
`kube-apiserver` with certificates of its own, and waits until `/healthz` answers. That is the package
`pkg/internal/testing/controlplane` of sigs.k8s.io/controller-runtime.
"""

from __future__ import annotations

import http.server
import signal
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

from ctrlhost_sandbox.cli.options import read_gates
from ctrlhost_sandbox.cli.serving import started
from ctrlhost_sandbox.context import FEATURE_GATES, Options
from ctrlhost_sandbox.errors import SandboxError
from ctrlhost_sandbox.http.tls import Certificates
from ctrlhost_sandbox.server.server import Sandbox

_PROGRAM = """#!{python}
import sys

from ctrlhost_sandbox.cli import envtest

sys.exit(envtest.{function}(sys.argv[1:]))
"""

_HELP = "--help"
_APISERVER_FLAGS = (
    *("bind-address", "secure-port", "cert-dir", "tls-cert-file", "tls-private-key-file", "client-ca-file"),
    *("authorization-mode", "service-cluster-ip-range", "feature-gates"),
)


def write_programs(directory: Path) -> None:
    """Write `kube-apiserver` and `etcd` into a directory; SandboxError if that cannot be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, function in (("kube-apiserver", "run_apiserver"), ("etcd", "run_etcd")):
            program = directory / name
            program.write_text(_PROGRAM.format(python=sys.executable, function=function), encoding="utf-8")
            program.chmod(0o755)
    except OSError as error:
        raise SandboxError(f"{error.filename or directory}: {error.strerror}") from None


def run_etcd(arguments: list[str]) -> int:
    """Answer that all is well until a signal arrives; the objects are in the sandbox."""
    if _HELP in arguments:
        return _print_flags("listen-client-urls")
    ended = _signalled()
    url = urlsplit(_flags(arguments).get("listen-client-urls", "http://127.0.0.1:2379").partition(",")[0])
    address = (url.hostname or "127.0.0.1", 2379 if url.port is None else url.port)
    server = http.server.ThreadingHTTPServer(address, _Health)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"serving at http://{address[0]}:{server.server_port}", flush=True)
    _wait_for(ended)
    return 0


def run_apiserver(arguments: list[str]) -> int:
    """Serve at the address and with the certificates of the flags until a signal arrives; ignore other flags."""
    if _HELP in arguments:
        return _print_flags(*_APISERVER_FLAGS)
    ended, flags = _signalled(), _flags(arguments)
    try:
        sandbox = Sandbox(
            address=flags.get("bind-address", "127.0.0.1").replace("0.0.0.0", "127.0.0.1"),  # noqa: S104 - never
            port=int(flags.get("secure-port", "6443")),
            certificates=_certificates(flags),
            # envtest runs no controller, and its etcd forgets.
            controllers=(),
            rbac="RBAC" in flags.get("authorization-mode", ""),
            options=Options(feature_gates=_feature_gates(flags.get("feature-gates", ""))),
        )
        with started(sandbox):
            print(f"serving at {sandbox.url}", flush=True)
            _wait_for(ended)
        return 0
    except SandboxError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


class _Health(http.server.BaseHTTPRequestHandler):
    """Answers like etcd's `/health`."""

    def do_GET(self) -> None:
        """Answer 200."""
        body = b'{"health":"true"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _print_flags(*names: str) -> int:
    """Print the flags that count, as envtest reads them; others are accepted, and ignored."""
    print(*(f"  --{name} string" for name in names), sep="\n")
    return 0


def _flags(arguments: list[str]) -> dict[str, str]:
    """Return the flags `--name=value`."""
    return {name.lstrip("-"): value for name, _, value in (text.partition("=") for text in arguments)}


def _feature_gates(text: str) -> dict[str, bool]:
    """Read the feature gates that make a difference; kube-apiserver has many others. SandboxError for invalid text."""
    try:
        return {name: value for name, value in read_gates(text).items() if name in FEATURE_GATES}
    except ValueError as error:
        raise SandboxError(f"invalid feature gate `{error}`: write NAME=true or NAME=false") from None


def _certificates(flags: dict[str, str]) -> Certificates | None:
    """Read the server's certificate and the authority of the clients'; None without them."""
    folder = Path(flags.get("cert-dir", "."))
    leaf = Path(flags.get("tls-cert-file", folder / "apiserver.crt"))
    key = Path(flags.get("tls-private-key-file", folder / "apiserver.key"))
    if "client-ca-file" not in flags or not leaf.exists():
        return None
    leaf_pem, client_ca = leaf.read_text(encoding="ascii"), Path(flags["client-ca-file"]).read_text(encoding="ascii")
    return Certificates(ca=leaf_pem, leaf=leaf_pem, key=key.read_text(encoding="ascii"), client_ca=client_ca)


def _signalled() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set. For the main thread."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    return ended


def _wait_for(event: threading.Event) -> None:
    # A signal just before a wait is noticed only after it.
    while not event.wait(0.5):
        pass
