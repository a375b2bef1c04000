"""The cache: objects, delta FIFO, indexed store, and the core of an informer, as in client-go's `tools/cache`.

Everything here may be called from any thread, except where `SharedInformer` says otherwise; cached objects are
immutable. A FIFO or a store accepts an `Object`, a mapping as `json.loads` returns it, or JSON bytes or text, and
always returns an `Object`.
"""

from __future__ import annotations

from ctrlhost._core import (
    DeletedFinalStateUnknown,
    Delta,
    DeltaFIFO,
    Indexer,
    Listener,
    ListMeta,
    ListView,
    MapView,
    Object,
    Owner,
    OwnerReference,
    Predicate,
    SharedInformer,
    WatchProgress,
    namespace_index,
    plain,
)
from ctrlhost.errors import Closed, DecodeError, KeyFuncError, PartialObject, TransactionError

__all__ = [
    "Closed",
    "DecodeError",
    "DeletedFinalStateUnknown",
    "Delta",
    "DeltaFIFO",
    "Indexer",
    "KeyFuncError",
    "ListMeta",
    "ListView",
    "Listener",
    "MapView",
    "Object",
    "Owner",
    "OwnerReference",
    "PartialObject",
    "Predicate",
    "SharedInformer",
    "TransactionError",
    "WatchProgress",
    "namespace_index",
    "plain",
]
