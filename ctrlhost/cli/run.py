"""`ctrlhost run`: the host."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO, cast

import click
from click.core import ParameterSource

from ctrlhost.cli.options import CONFIG, NAMESPACE, PLUGINS, SET, gather, names, sandbox_options
from ctrlhost.cli.progress import CurrentStderr, ListBars, can_draw

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.config.load import Configuration
    from ctrlhost.sandbox import Sandbox


@click.command("run")
@PLUGINS
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig; else $KUBECONFIG, the pod's account, ~/.kube/config.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; else its current one.")
@NAMESPACE
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
    _check_sandbox(settings.sandbox, kubeconfig, context)
    if not settings.plugins:
        from ctrlhost.supervisor.loader import installed_plugins

        known = ", ".join(installed_plugins()) or "none"
        raise click.UsageError(f"no plugin is named; say which with `--plugins NAME,NAME` (installed: {known})")
    _check_installed(settings.plugins)

    from ctrlhost.host import logs

    if can_draw(sys.stderr) and settings.log_format != "json":
        logs.configure(settings.log_level, settings.log_format, cast("TextIO", CurrentStderr()))
    else:
        logs.configure(settings.log_level, settings.log_format)
    if not settings.sandbox:
        return _run(configuration, None)

    from ctrlhost.cli.options import make_sandbox

    return _run(configuration, make_sandbox(sandbox_chosen))


def _check_sandbox(wanted: bool, kubeconfig: str | None, context: str | None) -> None:
    """Refuse options that would be without effect, since whoever gives them expects one."""
    if wanted:
        for flag, value in (("--kubeconfig", kubeconfig), ("--context", context)):
            if value is not None:
                raise click.UsageError(
                    f"{flag} and --sandbox exclude each other: the sandbox writes a kubeconfig of its own, to the file "
                    "that --sandbox-kubeconfig names"
                )
        return
    asking = click.get_current_context()
    for name in asking.params:
        if name.startswith("sandbox_") and asking.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} has no effect without --sandbox")


def _check_installed(names: tuple[str, ...]) -> None:
    """Refuse a plugin that is not installed before anything is imported or started."""
    from ctrlhost.supervisor.loader import check_installed

    for name in names:
        check_installed(name)


def _run(configuration: Configuration, sandbox: Sandbox | None) -> int:
    from ctrlhost.host.host import Host

    host = Host(configuration=configuration, sandbox=sandbox)
    with ExitStack() as stack:
        if sandbox is not None:
            from ctrlhost.cli.sandbox import announced

            # Only what can be run is announced: who reads the kubeconfig's path may use it at once.
            try:
                host.prepare()
                stack.enter_context(announced(sandbox))
            except BaseException:
                host.stop(0)
                raise
        if can_draw(sys.stderr):
            bars = ListBars(lambda: [one.status() for one in host.factory.informers()] if host.factory else [])
            bars.start()
            stack.callback(bars.stop)
        code = host.run()
    sys.stdout.flush()
    return code
