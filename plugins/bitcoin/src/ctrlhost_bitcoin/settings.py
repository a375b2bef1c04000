"""The plugin's settings, as they stand under `[plugins.bitcoin]`."""

from __future__ import annotations

from typing import Literal

import msgspec

from ctrlhost import Duration

#: The image of the Go controller that this plugin continues.
DEFAULT_IMAGE = "christianb93/bitcoind:v1.0"


class BitcoinSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What an operator may choose."""

    default_image: str = DEFAULT_IMAGE
    """Image of networks that name none."""

    rpc_port: int = 18332
    """RPC port of networks that name none."""

    p2p_port: int = 18444
    """P2P port of networks that name none."""

    workers: int = 5
    """How many networks are worked on at once."""

    resync: Duration = Duration("30s")
    """How often every network is looked at though nothing happened; 0 for never."""

    rpc_connect_timeout: Duration = Duration("2s")
    """How long a daemon may take to accept a connection."""

    rpc_timeout: Duration = Duration("5s")
    """How long a daemon may take to answer."""

    onetry_timeout: Duration = Duration("8s")
    """How long it may take to dial a peer when it is told to."""

    rpc_concurrency: int = 64
    """How many calls are under way at once, in all."""

    mesh_deadline: Duration = Duration("20s")
    """How long one pass over the daemons of a network takes at most; the rest is for the next one."""

    rotate: Literal["roll", "manual"] = "roll"
    """`roll` restarts the nodes when their credentials change, `manual` leaves that to the user."""

    secret_access: Literal["watch", "get"] = "watch"
    """`get` asks for single Secrets and needs no right to list them; a change is noticed at the next resync."""

    secret_names: tuple[str, ...] = ()
    """With `secret-access: get`, the names that the printed role is narrowed to; none means all."""

    adopt: bool = True
    """Take over a Service or StatefulSet that is nobody's and fits; without it only labelled ones are looked at."""

    def __post_init__(self) -> None:
        """Refuse what can never work."""
        for name, port in (("rpc-port", self.rpc_port), ("p2p-port", self.p2p_port)):
            if not 1 <= port <= 65535:
                raise ValueError(f"{name} must be from 1 to 65535")
        for name, count in (("workers", self.workers), ("rpc-concurrency", self.rpc_concurrency)):
            if count < 1:
                raise ValueError(f"{name} must be at least 1")
        for name, seconds in (
            ("rpc-connect-timeout", self.rpc_connect_timeout),
            ("rpc-timeout", self.rpc_timeout),
            ("onetry-timeout", self.onetry_timeout),
            ("mesh-deadline", self.mesh_deadline),
        ):
            if seconds <= 0:
                raise ValueError(f"{name} must be more than zero")
        if not self.default_image.strip():
            raise ValueError("default-image must not be blank")
        if self.secret_names and self.secret_access != "get":
            raise ValueError("`secret-names` has a meaning with `secret-access: get` only")
