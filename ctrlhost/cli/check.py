"""`ctrlhost check`: whether plugins can run, with the settings and the rights that they have."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from ctrlhost.cli.amounts import plural
from ctrlhost.cli.frameworks import FrameworkCommand, framework_options
from ctrlhost.cli.messages import USAGE
from ctrlhost.cli.options import CONFIG, FILES, NAMESPACE, PLUGINS, SET, gather, names, plugin_files
from ctrlhost.cli.table import visible

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctrlhost.authoring.check import OfflineCheck
    from ctrlhost.authoring.findings import Finding


@click.command("check", cls=FrameworkCommand)
@FILES
@framework_options
@PLUGINS
@click.option(
    "--offline", is_flag=True, help="Ask no server: check settings, declarations, CRDs and names of kinds only."
)
@click.option("--strict", is_flag=True, help="Exit with 1 on a warning, too.")
@click.option(
    "--kubeconfig", metavar="FILE", help="Kubeconfig (default: $KUBECONFIG, the pod's service account, ~/.kube/config)."
)
@click.option("--context", metavar="NAME", help="Kubeconfig context (default: current).")
@NAMESPACE
@CONFIG
@SET
@click.option("-v", "--verbose", is_flag=True, help="Print each check that passes, too.")
@click.option(
    "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Form of the output."
)
def command(
    files: tuple[Path, ...],
    plugins: tuple[str, ...],
    offline: bool,
    strict: bool,
    kubeconfig: str | None,
    context: str | None,
    namespaces: tuple[str, ...],
    config: Path | None,
    assignments: tuple[str, ...],
    verbose: bool,
    output: str,
) -> int:
    """Check plugins without running them: files, those of the settings, or else all that are installed.

    These are their settings and declarations, and whether a server would accept their CRDs. Unless --offline is given,
    the command also asks the server, with the account of the kubeconfig or that of the plugin: whether the CRDs are
    installed as the plugins have them, the kinds served and the rights granted, and what it warns of.

    Each line is `error|warning PLUGIN CHECK: text`, the errors first. Then a line `ok PLUGIN: N checks` has what
    passed. Exit code 1 means an error, 2 an operator of another framework that cannot be supported.
    """
    from ctrlhost.authoring.check import OfflineCheck
    from ctrlhost.errors import ConfigError
    from ctrlhost.supervisor.loader import check_installed, installed_plugins

    chosen = names(plugins)
    for name in chosen:
        check_installed(name)
    configuration = gather(
        config, assignments, plugins=chosen, namespaces=names(namespaces), kubeconfig=kubeconfig, context=context
    )
    # Invalid settings are among the findings.
    with suppress(ConfigError):
        chosen = configuration.host.plugins
    of_files = plugin_files(files, chosen)
    selected = (*chosen, *of_files) or tuple(installed_plugins())
    if not selected:
        raise click.UsageError("no plugins are installed; install one with pip, or name a file")
    known = [*chosen, *(file.name for file in of_files), *installed_plugins()]
    checked = OfflineCheck(selected, configuration, known, kinds=offline)
    findings = [*checked.findings, *(() if offline else _on_server(checked))]
    _print(findings, output, verbose=verbose)
    if checked.refused:
        return USAGE
    failing = ("error", "warning") if strict else ("error",)
    return int(any(finding.level in failing for finding in findings))


def _on_server(checked: OfflineCheck) -> Iterator[Finding]:
    from ctrlhost.authoring.check_server import check_on_server
    from ctrlhost.authoring.findings import HOST, Finding
    from ctrlhost.client import Client
    from ctrlhost.errors import CtrlhostError

    settings = checked.configuration.host
    timeout = float(checked.configuration.client.connect_timeout)
    own = None
    for plugin in checked.plugins:
        found_by = f"supervision.{plugin.name}.kubeconfig"
        path, name = checked.configuration.supervision(plugin.name).kubeconfig, plugin.name
        client: Client | None = None
        try:
            if path is not None:
                client = Client.of_account(path, found_by, None, timeout)
            else:
                name = HOST
                client = own = own or Client.load(settings.kubeconfig, settings.context, connect_timeout=timeout)
            yield from check_on_server(plugin, client)
        except CtrlhostError as error:
            account = f" ({client.transport.account()})" if client is not None else ""
            yield Finding("error", name, "server", f"{error.message}{account}", error.hint)
            if name == HOST:
                return


def _print(findings: list[Finding], output: str, *, verbose: bool) -> None:
    """Print errors, then warnings, then a line for what is all right; if `verbose`, each finding in its order."""
    if output == "json":
        import json
        from dataclasses import asdict

        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))
        return
    problems = sorted((finding for finding in findings if finding.level != "ok"), key=lambda finding: finding.level)
    for finding in findings if verbose else problems:
        click.echo(visible(finding))
        if finding.hint and finding.level != "ok":
            click.echo(f"  hint: {visible(finding.hint)}", err=True)
    if not verbose:
        passed = Counter(finding.plugin for finding in findings if finding.level == "ok")
        for plugin, count in passed.items():
            other = "other " if any(finding.plugin == plugin for finding in problems) else ""
            click.echo(visible(f"ok {plugin}: {plural(count, f'{other}check')}"))
