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
    """Number of daemons."""
    secret: str | None = None
    """Secret in the same namespace with the daemons' credentials, under the keys BC_RPC_USER and
    BC_RPC_PASSWORD. Without it the daemons use publicly known ones.
    """
    image: str | None = None
    """Image of the container; default is the plugin's setting."""
    args: list[str] | None = None
    """Arguments of the container; default is the image's own."""
    readiness: Literal["Cli", "Rest"] | None = None
    """Readiness probe: Cli runs bitcoin-cli in the container, Rest calls the REST interface, which needs the
    argument -rest. Default is Cli.
    """
    rpcPort: int | None = None
    """RPC port of the daemons."""
    p2pPort: int | None = None
    """P2P port of the daemons."""


class BitcoinNetworkStatusNodes(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Part of BitcoinNetwork."""

    ordinal: int
    ready: bool
    ip: str
    nodeName: str
    """Name of the pod."""
    dnsName: str
    """Name that resolves within the namespace."""


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
    """Generation that the status describes."""
    replicas: int | None = None
    """Number of pods."""
    readyReplicas: int | None = None
    """Number of ready nodes."""
    selector: str | None = None
    """Selector of the pods, for the scale subresource."""
    nodes: list[BitcoinNetworkStatusNodes] | None = None
    """Nodes that have a pod, by ordinal."""
    conditions: list[BitcoinNetworkStatusConditions] | None = None


class BitcoinNetwork(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A private regtest network of bitcoin daemons that are connected to each other."""

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
