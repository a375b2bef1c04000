"""`ctrlhost run`: the host."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ctrlhost.cli.options import CONFIG, PLUGINS, SET, gather, names, sandbox_options

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.configuration import Configuration
    from ctrlhost.sandbox import Sandbox


@click.command("run")
@PLUGINS
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig; else $KUBECONFIG, the pod's account, ~/.kube/config.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; else its current one.")
@click.option("--namespace", "-n", "namespaces", metavar="NS,NS…", multiple=True, help="Limit controllers to these.")
@click.option("--sandbox", is_flag=True, default=None, help="Run against an embedded API server of this process.")
@click.option("--install-crds", is_flag=True, default=None, help="Install the plugins' CRDs first.")
@click.option("--leader-elect", is_flag=True, default=None, help="Act only while holding a Lease, else stand by.")
@click.option("--listen", metavar="HOST:PORT", help="Where probes, metrics and plugins' pages are served.")
@CONFIG
@SET
@sandbox_options
def command(
    plugins: tuple[str, ...],
    namespaces: tuple[str, ...],
    config: Path | None,
    assignments: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    sandbox: bool | None,
    install_crds: bool | None,
    leader_elect: bool | None,
    listen: str | None,
    **sandbox_chosen: Any,
) -> int:
    """Run plugins until asked to stop.

    SIGTERM and SIGINT let running reconciles finish within the setting `drain_timeout` and exit with code 0; a second
    signal ends the process at once, with code 1. Exit code 2 is a mistake in the command line or in the settings.
    """
    configuration = gather(
        config,
        assignments,
        plugins=names(plugins),
        namespaces=names(namespaces),
        kubeconfig=kubeconfig,
        context=context,
        sandbox=sandbox,
        install_crds=install_crds,
        leader_elect=leader_elect,
        listen=listen,
    )
    settings = configuration.host()
    if not settings.plugins:
        from ctrlhost.plugins import installed_plugins

        known = ", ".join(installed_plugins()) or "none"
        raise click.UsageError(f"no plugin is named; say which with `--plugins NAME,NAME` (installed: {known})")
    _check_installed(settings.plugins)

    from ctrlhost import logs

    logs.configure(settings.log_level, settings.log_format)
    if not settings.sandbox:
        return _run(configuration, None)

    from ctrlhost.cli.options import make_sandbox
    from ctrlhost.cli.sandbox import announced

    with announced(make_sandbox(sandbox_chosen)) as running:
        return _run(configuration, running)


def _check_installed(names: tuple[str, ...]) -> None:
    """Refuse a plugin that is not installed before anything is imported or started."""
    from ctrlhost.plugins import check_installed

    for name in names:
        check_installed(name)


def _run(configuration: Configuration, sandbox: Sandbox | None) -> int:
    from ctrlhost.host import Host

    code = Host(configuration=configuration, sandbox=sandbox).run()
    sys.stdout.flush()
    return code
