"""What an operator sees of a running host: its state as one snapshot, samples over the last hour, and keys.

The JSON of `/api/v1`, pages and `ctrlhost top` show the same snapshot. Nothing here walks a cache or a whole queue.

Imports `supervisor`, `controller`, `coordination`, `informers`. Public: nothing; `host` makes what `server` shows.
"""
