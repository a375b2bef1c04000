"""`python -m tests.differential`: send the same random requests to two servers, and print where they differ."""

from __future__ import annotations

import random
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click
from ctrlhost_sandbox import Sandbox

from tests.differential.classes import KNOWN, known
from tests.differential.requests import targets
from tests.differential.run import Run, prepare, replayed
from tests.differential.servers import Servers
from tests.support.control_plane import KubeApiserver
from tests.support.http_client import Api
from tests.support.rbac_rig import api_of


@click.command()
@click.option("--left", default="sandbox", help="URL or kubeconfig of a server; `sandbox` starts one.")
@click.option("--right", default="kube-apiserver", help="The same; `kube-apiserver` starts tests/go/bin/controlplane.")
@click.option("--seconds", default=60.0, help="How long to send requests.")
@click.option("--seed", default=None, type=int, help="Repeats a run; random if it is missing.")
@click.option("--kind", "kinds", multiple=True, help="Only this kind; may be repeated.")
@click.option("--keep", type=click.Path(path_type=Path), help="File for requests that show each class.")
@click.option("--replay", type=click.Path(path_type=Path, exists=True), help="Send the requests of such a file.")
@click.option("--known", "listed", type=click.Path(path_type=Path), default=KNOWN, help="File of known differences.")
def main(
    left: str,
    right: str,
    seconds: float,
    seed: int | None,
    kinds: tuple[str, ...],
    keep: Path | None,
    replay: Path | None,
    listed: Path,
) -> None:
    """Send the same random requests to two servers, and print the classes of differences.

    Exits with 1 if a class is not among the known differences.
    With `--replay`, send the requests of a file instead, and print both answers to each.
    """
    seed = random.randrange(2**32) if seed is None else seed
    with ExitStack() as stack:
        apis = [stack.enter_context(_api(where, stack)) for where in (left, right)]
        for api in apis:
            prepare(api)
        servers = Servers(*apis)
        stack.callback(servers.close)
        if replay:
            for line in replayed(servers, replay.read_text(encoding="utf-8")):
                click.echo(line)
            return
        run = Run(servers, targets(apis[0], kinds), seed)
        try:
            run.seconds(seconds)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
    report = run.report
    click.echo(report)
    if keep:
        keep.write_text("\n".join([f"# seed {seed}", *map(report.example, report.examples)]) + "\n", encoding="utf-8")
    unknown = report.unlisted(known(listed))
    click.echo(f"{len(report.classes)} classes, {len(unknown)} of them unknown")
    raise SystemExit(bool(unknown))


def _api(where: str, stack: ExitStack) -> Api:
    if where == "sandbox":
        sandbox = stack.enter_context(Sandbox(controllers=()))
        return Api(sandbox.url, sandbox.ca, sandbox.token)
    if where == "kube-apiserver":
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return api_of(stack.enter_context(KubeApiserver(directory)).kubeconfig)
    return Api(where) if where.startswith("http") else api_of(Path(where))


if __name__ == "__main__":
    main()
