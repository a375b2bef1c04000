"""The cache: objects, delta FIFO, indexed store, and the engine that an informer is made of.

Everything here is thread-safe, and what is cached can not be changed. An *object* handed to a FIFO or a store is an
`Object`, a mapping as `json.loads` gives it, or JSON bytes; what comes out is always an `Object`.
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
]
