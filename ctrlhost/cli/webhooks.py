"""`ctrlhost webhooks`: the authority that signs the certificates of webhooks."""

from __future__ import annotations

from datetime import UTC, datetime

import click


@click.group("webhooks")
def command() -> None:
    """Act on what the hosts of a cluster need for their webhooks."""


@command.command("rotate-ca", short_help="Create another authority, beside the one before it.")
@click.option("--namespace", default="ctrlhost-system", show_default=True, help="Namespace of the hosts.")
@click.option(
    "--kubeconfig", metavar="FILE", help="Kubeconfig (default: $KUBECONFIG, the pod's service account, ~/.kube/config)."
)
@click.option("--context", metavar="NAME", help="Kubeconfig context (default: current).")
def rotate_ca(namespace: str, kubeconfig: str | None, context: str | None) -> None:
    """Create another authority, which signs a day later; the one before it is trusted for a day more.

    Hosts renew it themselves after two thirds of its ten years. If its key has become known, stop the hosts and delete
    the Secret instead: a host that starts then creates another one, which alone is trusted.
    """
    from ctrlhost.client import Client
    from ctrlhost.clock import SystemClock
    from ctrlhost.host.webhooks.authority_secret import AuthoritySecret
    from ctrlhost.server.authority import NAME, OVERLAP

    client = Client.load(kubeconfig, context)
    try:
        authority = AuthoritySecret(client, namespace, SystemClock().time).rotate()
    finally:
        client.close()
    moments = authority.created + OVERLAP, authority.settled
    signs, alone = (f"{datetime.fromtimestamp(moment, UTC):%FT%TZ}" for moment in moments)
    click.echo(f"another authority is in Secret {namespace}/{NAME}: it signs from {signs}")
    click.echo(f"the one before it is trusted until {alone}")
