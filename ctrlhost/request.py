"""What a reconciler is asked to bring in order."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Request"]


class Request(NamedTuple):
    """The object to reconcile, and so the work queue's key: two events of one object are one request.

    A controller whose unit of work is not an object, a host name say, uses `name` alone.
    """

    name: str
    namespace: str = ""
    cluster: str = ""
