"""The page for users of controller-runtime has all of its names, and names what exists on our side."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import pytest

import ctrlhost
from ctrlhost import predicates
from ctrlhost.cli.group import COMMANDS
from ctrlhost.controller.source import SourceOptions

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "from-controller-runtime.md").read_text("utf-8")
OURS = " ".join(
    line.split(" | ", 1)[1]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "controller-runtime |" not in line
)

#: Names of controller-runtime 0.24, those of `client.Client` as methods of a reconciler.
THEIRS = {
    "Builder": "NewControllerManagedBy For Owns Watches WatchesMetadata WatchesRawSource Named WithEventFilter"
    " WithOptions WithLogConstructor Complete Build WithPredicates OnlyMetadata MatchEveryOwner"
    " MaxConcurrentReconciles RateLimiter NeedLeaderElection ReconciliationTimeout CacheSyncTimeout"
    " RecoverPanic UsePriorityQueue EnableWarmup",
    "Predicates": "GenerationChangedPredicate LabelChangedPredicate AnnotationChangedPredicate And Or Not Funcs"
    " ResourceVersionChangedPredicate NewPredicateFuncs LabelSelectorPredicate",
    "Handlers": "EnqueueRequestForObject EnqueueRequestForOwner OnlyControllerOwner EnqueueRequestsFromMapFunc Funcs",
    "Client": "Get List Create Update Patch Apply Delete DeleteAllOf Status SubResource Scheme RESTMapper IndexField"
    " InNamespace MatchingLabels MatchingFields FieldOwner ForceOwnership DryRunAll CreateOrUpdate CreateOrPatch"
    " SetControllerReference AddFinalizer RemoveFinalizer",
    "Manager": "NewManager Start Add Elected AddHealthzCheck AddReadyzCheck AddMetricsServerExtraHandler",
    "Webhooks": "NewWebhookManagedBy WithValidator WithDefaulter Complete CustomDefaulter Default CustomValidator"
    " ValidateCreate ValidateUpdate ValidateDelete Warnings RequestFromContext Hub Convertible ConvertTo ConvertFrom"
    " Options Port CertDir WebhookInstallOptions",
    "envtest": "Environment Start Stop Config KubeConfig AddUser CRDDirectoryPaths InstallCRDs UseExistingCluster",
}


def used(pattern: str) -> set[str]:
    names = set(re.findall(pattern, OURS))
    assert names, pattern
    return names


def test_the_names_exist() -> None:
    assert {name for name in used(r"ctrlhost\.([A-Z]\w+)") if name not in ctrlhost.__all__} == set()
    assert {name for name in used(r"plugin\.(?!md\b)([a-z]\w+)") if not hasattr(ctrlhost.Plugin, name)} == set()
    assert hasattr(ctrlhost.PluginContext, "add_controller")
    for kind, pattern in ((ctrlhost.Context, r"ctx\.([a-z]\w+)"), (ctrlhost.Client, r"ctx\.client\.([a-z]\w+)")):
        assert {name for name in used(pattern) if not hasattr(kind, name) and name != "client"} == set()
    assert {name for name in used(r"ctrlhost ([a-z]+)") if name not in COMMANDS} == set()


@pytest.mark.parametrize("title", THEIRS)
def test_each_name_of_theirs_has_a_row(title: str) -> None:
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"\w+", " ".join(row.split(" | ")[0] for row in section.splitlines() if row[:2] == "| ")))
    assert set(THEIRS[title].split()) - named == set()


def test_each_ready_predicate_has_a_row() -> None:
    ready = {name for name, value in vars(predicates).items() if isinstance(value, predicates.Ready)}
    for name in {*ready, "and_", "or_", "not_"}:
        assert f"`{name}`" in PAGE


def test_each_option_of_a_controller_is_one() -> None:
    section = PAGE[PAGE.index("## Builder") : PAGE.index("## Results")]
    options = {*signature(ctrlhost.PluginContext.add_controller).parameters, *SourceOptions.__annotations__}
    declared = {
        "owns",
        "watches",
        "every",
        "name",
        "workers",
        "timeout",
        "needs_leader",
        "predicates",
        "map",
        "controller",
    }
    assert set(re.findall(r"\b([a-z_]+)=", section)) <= options | declared | {*signature(ctrlhost.Backoff).parameters}
