"""Informers and a work queue without the host: print every ConfigMap of a namespace when it appears or changes.

    python -m examples.library NAMESPACE [COUNT]

Ends after COUNT keys, by default at Ctrl-C.
"""

from __future__ import annotations

import sys
from itertools import count

import ctrlhost
from ctrlhost.workqueue import WorkQueue


def main(namespace: str, wanted: int | None = None) -> None:
    """Follow the ConfigMaps of a namespace."""
    client = ctrlhost.Client.load()
    queue = WorkQueue("config-maps")
    with ctrlhost.InformerFactory(client) as factory:
        config_maps = factory.informer("v1", "ConfigMap", namespaces=[namespace])
        config_maps.enqueue_to(queue, key="object")
        factory.start()
        factory.wait_for_sync(30)
        for done in count(1):
            request = queue.get()
            try:
                config_map = config_maps.lister.get(request.name, request.namespace)
                print(request.name, "is gone" if config_map is None else dict(config_map.get("data", {})), flush=True)
                queue.forget(request)
            finally:
                queue.done(request)
            if done == wanted:
                return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
