"""The parameter `shardSelector` of lists, watches and deletions of collections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost_sandbox._native import ShardSelector
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.context import SHARDS

if TYPE_CHECKING:
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.http.messages import Query


def read_shard(context: ServerContext, query: Query) -> ShardSelector | None:
    """Read the selector of a request; None without one, or with the feature gate off. 500 if it is invalid."""
    text = query.first("shardSelector")
    if not text or not context.options.feature_gates.get(SHARDS):
        return None
    try:
        return ShardSelector(text)
    except ValueError as error:
        # A real server answers without a reason.
        raise Failure(500, "", f"invalid shard selector: {error}") from None
