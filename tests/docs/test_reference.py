"""The reference pages agree with the code. `python -m tests.docs.test_reference` writes the generated parts."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import click
import msgspec
import pytest
from prometheus_client.core import Metric

from ctrlhost import hookspecs
from ctrlhost.cli.group import COMMANDS, main_group
from ctrlhost.client import Client
from ctrlhost.clock import SystemClock
from ctrlhost.config import settings, shard_settings
from ctrlhost.config.load import Configuration
from ctrlhost.controller.clients import ClientCounts
from ctrlhost.controller.metrics import ReconcileMetrics
from ctrlhost.coordination.leadership import LeaderElectionCollector
from ctrlhost.host.api_servers import ApiServers
from ctrlhost.host.children import Children
from ctrlhost.host.gil_watch import GilWatch
from ctrlhost.host.metrics import EntryCollector, HostMetrics, LogCollector, PluginCollector, about_collections
from ctrlhost.host.metrics_access import MetricsAccess
from ctrlhost.host.queue_metrics import QueueCollector
from ctrlhost.host.shard_metrics import ShardMetrics
from ctrlhost.host.shards import HostShards
from ctrlhost.host.webhooks.counts import WebhookMetrics
from ctrlhost.informers import InformerFactory
from ctrlhost.server.counts import HttpCounts
from ctrlhost.status import model
from ctrlhost.supervisor.loader import hook_names
from ctrlhost.supervisor.processor import PluginProcessor
from ctrlhost.supervisor.run_directory import RunDirectory
from ctrlhost.transport.metrics import ThreadMetrics
from tests.docs.api_pages import CLASSES, class_page, names_page

PAGES = Path(__file__).parents[2] / "docs" / "reference"
WIDTH = 110
#: Suffixes that the exposition adds to the name of a family.
SUFFIXES = {"counter": "_total", "info": "_info"}


def commands() -> str:
    group = main_group()
    parts = []
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        parts.append(f"## `ctrlhost {name}`\n\n{_help(command, name)}")
        if isinstance(command, click.Group):
            parts += [
                f"### `ctrlhost {name} {own}`\n\n{_help(member, f'{name} {own}')}"
                for own, member in command.commands.items()
            ]
    return "\n".join(parts)


def _help(command: click.Command, name: str) -> str:
    context = click.Context(
        command,
        info_name=f"ctrlhost {name}",
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    return f"```\n{command.get_help(context).rstrip()}\n```\n"


def described_settings() -> str:
    tree = ast.Module(
        [statement for module in (settings, shard_settings) for statement in ast.parse(inspect.getsource(module)).body],
        [],
    )
    parts = []
    for title, struct in (
        ("The host: `[host]`", settings.HostSettings),
        ("Connections to the API server: `[client]`", settings.ClientSettings),
        ('A controller: `[controllers."PLUGIN/NAME"]`', settings.ControllerOverrides),
        ("A plugin: `[supervision.PLUGIN]`, and for all of them `[supervision]`", settings.Supervision),
        (
            "Deadlines: `[supervision.PLUGIN.deadlines]`, and for all plugins `[supervision.deadlines]`",
            settings.Deadlines,
        ),
        ("Informers: `[informers]`", settings.InformerSettings),
        ('One kind: `[informers."APIVERSION/KIND"]`', settings.InformerKind),
        ("Traces: `[otel]`", settings.OtelSettings),
        ("Shards: `[shards]`", shard_settings.ShardSettings),
    ):
        (node,) = (
            statement
            for statement in tree.body
            if isinstance(statement, ast.ClassDef) and statement.name == struct.__name__
        )
        texts = docstrings(node)
        rows = [f"## {title}\n", "| Setting | Type | Default | |", "|---|---|---|---|"]
        rows += [
            f"| `{field.encode_name}` | {type_name(field.type)} | {default(field.default)} | {texts[field.name]} |"
            for field in msgspec.structs.fields(struct)
        ]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def docstrings(node: ast.ClassDef) -> dict[str, str]:
    texts = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            texts[field.target.id] = " ".join(text.value.value.split())
    return texts


def type_name(kind: object) -> str:
    text = str(kind) if not isinstance(kind, type) else kind.__name__
    names = {
        "str": "string",
        "bool": "true or false",
        "int": "number",
        "float": "number",
        "Duration": "duration",
        "Size": "size",
    }
    if text.startswith("dict"):
        return "table"
    if choices := re.search(r"Literal\[(.*?)\]", text):
        named = " ".join(f"`{choice.strip(chr(39))}`" for choice in choices[1].split(", "))
        return f"true, false or {named}" if "bool" in text else named
    if "tuple" in text:
        return "list of texts"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return "table"
    plain = text.removesuffix(" | None").rpartition(".")[2]
    return names[plain]


def default(value: object) -> str:
    return (
        ""
        if value in (None, (), msgspec.NODEFAULT) or isinstance(value, msgspec.Struct)
        else f"`{str(value).lower() if isinstance(value, bool) else value}`"
    )


def described_hooks() -> str:
    parts = []
    for name in hook_names():
        hook = getattr(hookspecs, name)
        parameters = ", ".join(inspect.signature(hook).parameters)
        parts.append(f"## `{name}({parameters})`\n\n{inspect.getdoc(hook)}\n")
    return "\n".join(parts)


def described_metrics() -> str:
    client = Client("http://127.0.0.1:1")
    factory = InformerFactory(client)
    directory = RunDirectory()
    children = Children([], settings.HostSettings(), Configuration.gather(environ={}), directory, {}, ())
    children.serve(factory, client, None)
    collectors = {
        "The host and its plugins": SimpleNamespace(
            collect=lambda: [
                *(family for kind in (PluginCollector, EntryCollector, LogCollector) for family in kind([]).collect()),
                *about_collections([]),
                *PluginProcessor([]).collect(),
                *GilWatch(stacks=False).collect(),
            ]
        ),
        "The metrics' own address": MetricsAccess(
            settings.HostSettings(listen_metrics=":0", metrics_auth="kubernetes"), lambda: None, SystemClock()
        ),
        "Processes of isolated plugins": children,
        "Listeners": HttpCounts(),
        "Webhooks": WebhookMetrics(),
        "Reconciles": ReconcileMetrics(),
        "Work queues": QueueCollector(lambda _: False),
        "Informers": factory.metrics,
        "Leader election": LeaderElectionCollector([]),
        "Shards": ShardMetrics(
            HostShards([], shard_settings.ShardSettings(), settings.HostSettings(), client, factory, SystemClock())
        ),
        "Requests to the API server": SimpleNamespace(
            collect=lambda: [
                *client.metrics.collect(),
                *ApiServers().collect(),
                *ThreadMetrics().collect(),
            ]
        ),
        "Requests of plugins": ClientCounts(),
        "The process": HostMetrics().registry,
    }
    parts = []
    for title, collector in collectors.items():
        families = sorted(collector.collect(), key=lambda family: family.name)
        # Families that are made without samples do not know their labels.
        columns = {"Metric": exposed_name, "Type": lambda family: family.type, "Labels": labels_of, "": text_of}
        if not all(hasattr(family, "_labelnames") for family in families):
            del columns["Labels"]
        rows = [f"## {title}\n", table_row(columns), "|---" * len(columns) + "|"]
        rows += [table_row(show(family) for show in columns.values()) for family in families]
        parts.append("\n".join(rows) + "\n")
    children.stop()
    directory.close()
    factory.stop()
    client.close()
    return "\n".join(parts)


def table_row(cells: Iterable[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def exposed_name(family: Metric) -> str:
    return f"`{family.name}{SUFFIXES.get(family.type, '')}`"


def labels_of(family: Metric) -> str:
    return " ".join(f"`{name}`" for name in family._labelnames)


def text_of(family: Metric) -> str:
    return family.documentation.rstrip(".")


GENERATED = {
    "cli": ("commands", commands),
    "settings": ("settings", described_settings),
    "hooks": ("hooks", described_hooks),
    "metrics": ("metrics", described_metrics),
    "names": ("api", names_page),
    **{page: ("api", partial(class_page, page)) for page in CLASSES},
}


def with_generated(text: str, label: str, content: str) -> str:
    begin, end = f"<!-- generated: {label} -->\n", "<!-- end -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.partition(end)[2]}"


def status_schema() -> str:
    """Return the JSON schema of the answers of `/api/v1`: of the status, and of the others by name."""
    answers = (model.Status, model.CausePage, model.QueuePage, model.KeyStatus, model.Series, model.Problem)
    _, components = msgspec.json.schema_components(answers, ref_template="#/$defs/{name}")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ctrlhost /api/v1, version 1",
        "$ref": "#/$defs/Status",
        "$defs": dict(sorted(components.items())),
    }
    return json.dumps(schema, indent=2) + "\n"


SCHEMA = PAGES / "status.schema.json"


def test_the_schema_of_the_status_agrees_with_the_code():
    assert SCHEMA.read_text() == status_schema(), "run `python -m tests.docs.test_reference`"


@pytest.mark.parametrize("page", GENERATED)
def test_the_page_agrees_with_the_code(page):
    label, make = GENERATED[page]
    text = (PAGES / f"{page}.md").read_text()
    assert text == with_generated(text, label, make()), "run `python -m tests.docs.test_reference`"


if __name__ == "__main__":
    for page, (label, make) in GENERATED.items():
        file = PAGES / f"{page}.md"
        file.write_text(with_generated(file.read_text(), label, make()))
    SCHEMA.write_text(status_schema())


@pytest.mark.behaviour("findings3/NA24")
@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("README.md", ["make wheel", "--find-links dist"]),
        ("docs/tutorial.md", ["make wheel", "PIP_FIND_LINKS"]),
        ("docs/reference/workqueue.md", ["## `WorkQueue`", "### `add_rate_limited", "## `BucketRateLimiter`"]),
        ("docs/reference/informers.md", ["## `InformerFactory`", "### `wait_for_sync"]),
        ("docs/reference/sources.md", ["## `Watches`", "## `ByIndex`", 'map=ctrlhost.ByIndex("secret")', "indexes="]),
        ("docs/reference/plugin.md", ["applied.ctrlhost.dev/"]),
        ("docs/how-to/deploy.md", ["An object with a finalizer of a plugin can be deleted only while the plugin runs"]),
        ("docs/how-to/testing.md", ["no garbage collector", "namespace `ctrlhost-test-…`", "must run before"]),
    ],
)
def test_the_pages_have_what_authors_looked_for(page: str, texts: list[str]) -> None:
    root = Path(__file__).parents[2]
    content = (root / page).read_text(encoding="utf-8")
    for text in texts:
        assert text in content
