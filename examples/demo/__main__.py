"""The demo.

    python -m examples.demo [--keep]

It uses only the command line and the API server, as you would: the host is `ctrlhost run`, the objects are the files in
plugins/*/examples, and the demo reads what it shows from the server.
"""

from __future__ import annotations

import sys

import ctrlhost
from examples.demo import bitcoin, hostname, ingress_status, naming
from examples.demo.host import Host, counters


def main() -> None:
    """Run the demo; with --keep leave the host running until Ctrl-C."""
    host = Host()
    try:
        client = ctrlhost.Client.load(host.kubeconfig)
        hostname.demonstrate(client)
        naming.demonstrate(client, host)
        ingress_status.demonstrate(client)
        bitcoin.demonstrate(client)
        counters(host)
        if "--keep" in sys.argv:
            print("The host and its sandbox keep running until Ctrl-C. In another terminal:")
            print(f"  export KUBECONFIG={host.kubeconfig}\n  kubectl get ingress -A")
            print(f"  curl {host.address}/readyz?verbose", flush=True)
            host.process.wait()
            return
    except KeyboardInterrupt:
        pass
    finally:
        code = host.stop() if host.process.poll() is None else host.process.returncode
    print(f"stopped with exit code {code}. To continue by hand: make demo KEEP=1", flush=True)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
