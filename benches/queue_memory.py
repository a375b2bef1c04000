"""The memory of a queued key beyond its Python object, in its own process, since an allocator keeps freed memory.

    python -m benches.queue_memory str|Request KEYS

Prints the bytes of resident memory for each key, as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benches.informers import resident_bytes
from ctrlhost import Request
from ctrlhost.workqueue import WorkQueue


def main() -> None:
    """Queue the number of keys in the arguments, all created before the first reading."""
    kind, count = sys.argv[1], int(sys.argv[2])
    requests = [Request(f"deployment-{number:06d}", f"namespace-{number % 20:02d}") for number in range(count)]
    keys: list[Any] = (
        [f"{request.namespace}/{request.name}" for request in requests] if kind == "str" else list(requests)
    )
    work_queue = WorkQueue("memory")
    before = resident_bytes()
    work_queue.add_many(keys)
    taken = resident_bytes() - before
    assert len(work_queue) == count
    print(json.dumps({"bytes_per_key": taken / count}))


if __name__ == "__main__":
    main()
