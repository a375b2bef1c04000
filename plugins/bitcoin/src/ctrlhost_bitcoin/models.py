"""Typed models of bitcoinnetworks.bitcoincontroller.christianb93.github.com.

Written by `ctrlhost models`: change the CRD, and write them anew.
"""

# ruff: noqa: N815 - fields are called as on the wire

from __future__ import annotations

from typing import Any, Literal

import msgspec


class BitcoinNetworkSpec(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Part of BitcoinNetwork."""

    nodes: int
    """How many daemons there are."""
    secret: str | None = None
    """Secret in the same namespace with the daemons' credentials, under the keys BC_RPC_USER and
    BC_RPC_PASSWORD. Without it the daemons use well-known ones.
    """
    image: str | None = None
    """The container's image; without it the one that the operator of the plugin chose."""
    args: list[str] | None = None
    """The container's arguments; without them the image's own entry point decides."""
    readiness: Literal["Cli", "Rest"] | None = None
    """How it is found out whether a daemon is ready: Cli runs bitcoin-cli in the container, Rest asks its REST
    interface, for which it needs the argument -rest. Cli if not set.
    """
    rpcPort: int | None = None
    """Where the daemons answer RPC."""
    p2pPort: int | None = None
    """Where the daemons talk to each other."""


class BitcoinNetworkStatusNodes(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Part of BitcoinNetwork."""

    ordinal: int
    ready: bool
    ip: str
    nodeName: str
    """The name of the pod."""
    dnsName: str
    """A name that resolves within the namespace."""


class BitcoinNetworkStatusConditions(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Part of BitcoinNetwork."""

    type: str
    status: Literal["True", "False", "Unknown"]
    observedGeneration: int | None = None
    lastTransitionTime: str
    reason: str
    message: str


class BitcoinNetworkStatus(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Part of BitcoinNetwork."""

    observedGeneration: int | None = None
    """The generation that the rest of the status is about."""
    replicas: int | None = None
    """How many pods there are."""
    readyReplicas: int | None = None
    """How many nodes are ready."""
    selector: str | None = None
    """The selector of the pods, for the scale subresource."""
    nodes: list[BitcoinNetworkStatusNodes] | None = None
    """The nodes that have a pod, by ordinal."""
    conditions: list[BitcoinNetworkStatusConditions] | None = None


class BitcoinNetwork(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A private regtest network of bitcoin daemons, each of which knows the others."""

    apiVersion: Literal["bitcoincontroller.christianb93.github.com/v1"]
    kind: Literal["BitcoinNetwork"]
    metadata: dict[str, Any]
    spec: BitcoinNetworkSpec
    status: BitcoinNetworkStatus | None = None


class BitcoinNetworkList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a list of BitcoinNetwork is answered with."""

    apiVersion: Literal["bitcoincontroller.christianb93.github.com/v1"]
    kind: Literal["BitcoinNetworkList"]
    metadata: dict[str, Any]
    items: list[BitcoinNetwork]
