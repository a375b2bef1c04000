"""The plugin's settings, under `[plugins.bitcoin]`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ctrlhost import Duration

Port = Annotated[int, Meta(ge=1, le=65535)]
Count = Annotated[int, Meta(ge=1)]

#: The image of the Go controller that this plugin continues.
DEFAULT_IMAGE = "christianb93/bitcoind:v1.0"


class BitcoinSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The settings of the plugin."""

    default_image: Annotated[str, Meta(pattern=r"\S")] = DEFAULT_IMAGE
    """Image of networks without `spec.image`."""

    rpc_port: Port = 18332
    """RPC port of networks without `spec.rpcPort`."""

    p2p_port: Port = 18444
    """P2P port of networks without `spec.p2pPort`."""

    workers: Count = 5
    """Networks that are reconciled at once."""

    resync: Duration = Duration("30s")
    """How often each network is reconciled without an event; 0 for never."""

    rpc_connect_timeout: Duration = Duration("2s")
    """Time limit for a connection to a daemon."""

    rpc_timeout: Duration = Duration("5s")
    """Time limit for a daemon's answer."""

    onetry_timeout: Duration = Duration("8s")
    """Time limit for a call that makes a daemon dial a peer."""

    rpc_concurrency: Count = 64
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
        for name in ("rpc_connect_timeout", "rpc_timeout", "onetry_timeout", "mesh_deadline"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name.replace('_', '-')} must be positive")
        if self.secret_names and self.secret_access != "get":
            raise ValueError("secret-names requires `secret-access: get`")
