"""The plugin's settings, under `[plugins.bitcoin]`."""

from __future__ import annotations

from typing import Literal

import msgspec

from ctrlhost import Duration

#: The image of the Go controller that this plugin continues.
DEFAULT_IMAGE = "christianb93/bitcoind:v1.0"


class BitcoinSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The settings of the plugin."""

    default_image: str = DEFAULT_IMAGE
    """Image of networks without `spec.image`."""

    rpc_port: int = 18332
    """RPC port of networks without `spec.rpcPort`."""

    p2p_port: int = 18444
    """P2P port of networks without `spec.p2pPort`."""

    workers: int = 5
    """Networks that are reconciled at once."""

    resync: Duration = Duration("30s")
    """How often each network is reconciled without an event; 0 for never."""

    rpc_connect_timeout: Duration = Duration("2s")
    """Time limit for a connection to a daemon."""

    rpc_timeout: Duration = Duration("5s")
    """Time limit for a daemon's answer."""

    onetry_timeout: Duration = Duration("8s")
    """Time limit for a call that makes a daemon dial a peer."""

    rpc_concurrency: int = 64
    """Calls in flight at once, in all."""

    mesh_deadline: Duration = Duration("20s")
    """Time limit for one pass over the daemons of a network; the next pass does the rest."""

    rotate: Literal["roll", "manual"] = "roll"
    """`roll` restarts the nodes when their credentials change; `manual` leaves that to the user."""

    secret_access: Literal["watch", "get"] = "watch"
    """`get` fetches single Secrets and needs no right to list them; changes take effect at the next resync."""

    secret_names: tuple[str, ...] = ()
    """With `secret-access: get`, the Secrets that the printed role allows; empty for all."""

    adopt: bool = True
    """Take over a matching Service or StatefulSet without an owner; if off, only labelled ones are watched."""

    def __post_init__(self) -> None:
        """Reject settings that cannot work."""
        for name in ("rpc_port", "p2p_port"):
            if not 1 <= getattr(self, name) <= 65535:
                raise ValueError(f"{name.replace('_', '-')} must be from 1 to 65535")
        for name in ("workers", "rpc_concurrency"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name.replace('_', '-')} must be at least 1")
        for name in ("rpc_connect_timeout", "rpc_timeout", "onetry_timeout", "mesh_deadline"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name.replace('_', '-')} must be positive")
        if not self.default_image.strip():
            raise ValueError("default-image must not be blank")
        if self.secret_names and self.secret_access != "get":
            raise ValueError("secret-names requires `secret-access: get`")
