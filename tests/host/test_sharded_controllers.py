"""Which controllers can be sharded, and what one replica does with keys that are not its own."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
import yaml

import ctrlhost
from ctrlhost import Client, Request
from ctrlhost._core import shard_hash
from ctrlhost.coordination.ownership import Phase
from ctrlhost.errors import NotLeading, PluginLoadError
from tests.support.objects import config_map
from tests.support.plugin_modules import plugin_of

CONFIG_MAPS = ctrlhost.For("v1", "ConfigMap")


def nothing(_ctx: Any, _request: Any) -> None:
    return None


def declared(*sources: Any, **options: Any) -> Any:
    return plugin_of(lambda plugin: plugin.add_controller("shards", nothing, *sources, **options))


@pytest.mark.behaviour("shards/SH11")
@pytest.mark.parametrize(
    ("sources", "options", "texts"),
    [
        ([ctrlhost.For("v1", "Node")], {"shard_by": "namespace"}, ["For Node (v1)", 'shard_by="name"']),
        (
            [CONFIG_MAPS, ctrlhost.Watches("v1", "Node")],
            {"shard_by": "namespace"},
            ["Watches Node (v1) has no namespace", "shared=True"],
        ),
        (
            [CONFIG_MAPS, ctrlhost.Watches("v1", "Secret")],
            {"shard_by": "name"},
            ["Watches Secret (v1)", 'shard_by="name"', "shared=True"],
        ),
        (
            [CONFIG_MAPS, ctrlhost.Watches("v1", "Secret")],
            {"shard_by": "uid"},
            ["Watches Secret (v1)", 'shard_by="uid"', "shared=True"],
        ),
        ([CONFIG_MAPS, ctrlhost.Owns("v1", "Secret")], {"shard_by": "name"}, ["Owns Secret (v1)", "shared=True"]),
        (
            [CONFIG_MAPS, ctrlhost.Owns("v1", "Secret", controller=False)],
            {"shard_by": "uid"},
            ["Owns Secret (v1)", "shared=True"],
        ),
        ([CONFIG_MAPS], {"shard_by": "namespace", "needs_leader": False}, ["needs_leader=False", "leave out"]),
        ([ctrlhost.Watches("v1", "Secret", shared=True)], {"shard_by": "uid"}, ["needs a `For`"]),
        ([ctrlhost.For("v1", "Secret", shared=True)], {"shard_by": "uid"}, ["For Secret (v1)", "cannot be shared"]),
    ],
)
def test_what_cannot_be_sharded_is_refused_at_load(ctrlhost_host, sources, options, texts):
    host = ctrlhost_host(declared(*sources, **options), start=False)
    host.start()
    (plugin,) = host.host.plugins
    assert plugin.state == "failed"
    error = plugin.error
    assert isinstance(error, PluginLoadError)
    for text in ["demo/shards", *texts]:
        assert text in f"{error} {error.hint}"


@pytest.mark.behaviour("shards/SH11")
@pytest.mark.parametrize("by", ["x", "", 1])
def test_an_unknown_word_is_refused(ctrlhost_host, by):
    host = ctrlhost_host(declared(CONFIG_MAPS, shard_by=by), start=False)
    host.start()
    (plugin,) = host.host.plugins
    assert "shard_by must be one of namespace, name, uid" in plugin.reason


@pytest.mark.behaviour("shards/SH86")
@pytest.mark.parametrize(
    ("setting", "texts"),
    [
        ("host.leader_elect=false", ["host.leader_elect: ", "leave it out"]),
        ("host.leader_elect_lease_duration=5s", ["`leader_elect_lease_duration` must be greater than"]),
        ("shards.min_members=0", ["shards: `min_members` must be at least 1, got 0"]),
        ("controllers.naming/names.shard_by=x", ["controllers.naming/names.shard_by: ", "namespace, name, uid"]),
    ],
)
def test_a_host_with_settings_that_are_no_shards_does_not_start(ctrlhost, setting, texts):
    done = ctrlhost("run", "--plugins=naming", "--shards", f"--set={setting}")
    assert (done.returncode, done.stdout) == (2, "")
    for text in texts:
        assert text in done.stderr


@pytest.mark.parametrize(
    ("sources", "by"),
    [
        ([CONFIG_MAPS, ctrlhost.Owns("v1", "Secret"), ctrlhost.Watches("v1", "Secret")], "namespace"),
        ([CONFIG_MAPS, ctrlhost.Watches("v1", "Node", shared=True)], "namespace"),
        ([ctrlhost.For("v1", "Namespace"), ctrlhost.Watches("v1", "Secret", shared=True)], "name"),
        ([CONFIG_MAPS, ctrlhost.Owns("v1", "Secret")], "uid"),
    ],
)
def test_what_can_be_sharded_runs_with_and_without_shards(ctrlhost_host, sources, by):
    for shards in ({"enabled": True}, {}):
        host = ctrlhost_host(declared(*sources, shard_by=by), shards=shards)
        host.settle("60s")
        (controller,) = host.host.plugins[0].controllers
        assert controller.sharded is bool(shards)
        if shards:
            assert set(host.host.state.shards.ownership.phases().values()) == {Phase.OPEN}
        host.stop()


@pytest.mark.behaviour("shards/SH12")
def test_a_map_that_leaves_its_namespace_is_dropped_and_said_once(ctrlhost_host, caplog):
    runs = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        def mapped(obj: Any) -> list[ctrlhost.Request]:
            return [ctrlhost.Request(obj.name, obj.namespace), ctrlhost.Request(obj.name, "elsewhere")]

        source = ctrlhost.Watches("v1", "Secret", label_selector="mapped=yes", map=mapped)
        plugin.add_controller("maps", lambda _ctx, request: runs.append(request), source, shard_by="namespace")

    host = ctrlhost_host(plugin_of(setup), shards={"enabled": True})
    with caplog.at_level(logging.WARNING, "ctrlhost.controller"):
        for name in ("one", "two"):
            metadata = {"name": name, "labels": {"mapped": "yes"}}
            host.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        host.wait_for(lambda: len(set(runs)) == 2)
    assert {request.namespace for request in runs} == {"default"}
    (controller,) = host.host.plugins[0].controllers
    assert controller.shards.dropped >= 2
    lines = [record.getMessage() for record in caplog.records if "mapped out of its shard" in record.getMessage()]
    assert len(lines) == 1
    assert "demo/maps" in lines[0]


def lose(host: Any) -> None:
    """Take all ranges from the replica, as if another one had them now."""
    shards = host.host.state.shards
    shards._end_thread()
    shards.ownership.close()
    for span in shards.ownership.phases():
        assert shards.ownership.surrender(span)


@pytest.mark.behaviour("shards/SH46", "shards/SH51")
def test_keys_of_a_lost_range_are_dropped_and_counted(ctrlhost_host):
    runs = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        def reconcile(_ctx: Any, request: ctrlhost.Request) -> None:
            runs.append(request)
            if request.name == "fails":
                raise ctrlhost.RetryAfter(3600)

        source = ctrlhost.For("v1", "ConfigMap", label_selector="lost=yes")
        plugin.add_controller("runs", reconcile, source, ctrlhost.Every("1h"), shard_by="namespace")

    host = ctrlhost_host(plugin_of(setup), shards={"enabled": True})
    host.settle("60s")
    host.client.create(config_map("fails", namespace="default", labels={"lost": "yes"}))
    host.wait_for(lambda: ctrlhost.Request("fails", "default") in runs)
    (controller,) = host.host.plugins[0].controllers
    before = len(runs)
    lose(host)
    assert controller.attachments[0].informer is not None
    assert controller._attached.primary_requests() == [], "a timer queues nothing of other replicas"
    queue = controller.queue
    queue.add(ctrlhost.Request("fails", "default"))
    queue.add_after(ctrlhost.Request("late", "default"), 0.01)
    queue.add_rate_limited(ctrlhost.Request("failed", "default"))
    host.wait_for(lambda: controller.shards.dropped >= 3)
    assert len(runs) == before
    assert controller.status().errors == 0
    assert not host.host.plugins[0].context.owns(ctrlhost.Request("fails", "default"))


@pytest.mark.behaviour("shards/SH49")
def test_a_write_after_the_range_has_moved_is_refused_and_is_no_error(ctrlhost_host):
    seen: list[Any] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        def reconcile(ctx: Any, request: ctrlhost.Request) -> None:
            if request.name != "moves":
                return
            shards = plugin.services.shards
            (span,) = [span for span in shards.ownership.phases() if span.covers("namespace", shard_hash("default"))]
            seen.append((ctx.leading, plugin.owns(request)))
            client = plugin.client
            # As when another incarnation of this replica begins: the tenure ends under the run.
            shards.ownership._ranges[span].phase = Phase.CLOSING
            shards.ownership._ranges[span].tenure.end()
            seen.append((ctx.leading, plugin.owns(request)))
            for writer in (ctx.client, client):
                try:
                    writer.create(config_map("late", namespace="default"))
                except NotLeading as error:
                    seen.append(error.reason)
            ctx.client.create(config_map("late", namespace="default"))

        plugin.add_controller("runs", reconcile, CONFIG_MAPS, shard_by="namespace")

    host = ctrlhost_host(plugin_of(setup), shards={"enabled": True})
    host.settle("60s")
    host.host.state.shards._end_thread()
    host.client.create(config_map("moves", namespace="default"))
    host.wait_for(lambda: len(seen) == 4)
    assert seen == [(True, True), (False, False), "shard", "shard"]
    (controller,) = host.host.plugins[0].controllers
    host.wait_for(lambda: controller.shards.dropped)
    assert host.client.find("v1", "ConfigMap", "late", "default") is None
    assert controller.status().errors == 0
    refused = host.host.state.services.client_counts.refusals
    assert refused._counts["demo", "shard"] == 3
    # Outside of a run a client writes while this replica leads.
    host.host.plugins[0].context.client.create(config_map("outside", namespace="default"))


@pytest.mark.behaviour("shards/SH47")
def test_events_of_other_ranges_come_before_the_objects_of_one_that_opens_again(ctrlhost_host):
    runs: list[Request] = []
    entered, go_on = threading.Event(), threading.Event()

    def setup(plugin: ctrlhost.PluginContext) -> None:
        def reconcile(_ctx: Any, request: Request) -> None:
            runs.append(request)
            if request.name == "holds-up":
                entered.set()
                assert go_on.wait(60)

        source = ctrlhost.For("v1", "ConfigMap", label_selector="many=yes")
        plugin.add_controller("runs", reconcile, source, shard_by="namespace", workers=1)

    host = ctrlhost_host(plugin_of(setup), shards={"enabled": True}, start=False)
    labels = {"many": "yes"}
    many = [Request(f"object-{number}", "many") for number in range(10_000)]
    host.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "many"}})
    for request in many:
        host.client.create(config_map(request.name, namespace="many", labels=labels))
    host.start()
    host.settle("60s")
    assert sorted(runs) == sorted(many), "each once when its range opens for the first time"
    (controller,) = host.host.plugins[0].controllers
    shards = host.host.state.shards
    shards._end_thread()
    runs.clear()
    # The only worker is busy while the range opens again, as after a claim that came to nothing.
    host.client.create(config_map("holds-up", namespace="default", labels=labels))
    assert entered.wait(60)
    (span,) = [span for span in shards.ownership.phases() if span.covers("namespace", shard_hash("many"))]
    assert not span.covers("namespace", shard_hash("default"))
    shards.ownership._ranges[span].phase = Phase.WARMING
    shards._step()
    host.wait_for(lambda: controller.status().queued == len(many))
    host.client.create(config_map("event", namespace="default", labels=labels))
    host.wait_for(lambda: controller.status().queued == len(many) + 1)
    go_on.set()
    host.wait_for(lambda: len(runs) >= len(many) + 2 and not controller.status().queued, 60)
    assert runs[:2] == [Request("holds-up", "default"), Request("event", "default")]
    assert sorted(runs[2:]) == sorted(many), "each once"


@pytest.mark.behaviour("shards/SH09")
def test_by_uid_a_request_runs_only_while_its_object_is_cached(ctrlhost_host):
    runs: list[tuple[str, str]] = []

    def setup(plugin: ctrlhost.PluginContext) -> None:
        def reconcile(ctx: Any, request: ctrlhost.Request) -> None:
            runs.append((request.name, ctx.get(request).uid))

        source = ctrlhost.For("v1", "ConfigMap", label_selector="uids=yes")
        plugin.add_controller("runs", reconcile, source, shard_by="uid")

    host = ctrlhost_host(plugin_of(setup), shards={"enabled": True})
    host.settle("60s")
    labels = {"uids": "yes"}
    uids = []
    for _ in range(2):
        obj = host.client.create(config_map("again", namespace="default", labels=labels))
        uids.append(obj["metadata"]["uid"])
        host.wait_for(lambda: ("again", uids[-1]) in runs)
        host.client.delete("v1", "ConfigMap", "again", "default")
        (controller,) = host.host.plugins[0].controllers
        # The request for the deletion.
        host.wait_for(lambda gate=controller.shards: gate.dropped == len(uids))
    assert [uid for _, uid in runs] == uids


@pytest.mark.behaviour("shards/SH09a")
@pytest.mark.parametrize("by", ["namespace", "name", "uid"])
@pytest.mark.parametrize("shards", [{"enabled": True}, {}])
def test_an_informer_of_a_plugin_holds_what_its_controller_caches(ctrlhost_host, by, shards):
    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("runs", nothing, CONFIG_MAPS, shard_by=by)
        plugin.state = plugin.informer("v1", "ConfigMap", shard_by=by)

    host = ctrlhost_host(plugin_of(setup), shards=shards)
    host.client.create(config_map("one", namespace="default"))
    informer = host.host.plugins[0].context.state
    host.wait_for(lambda: informer.lister.get("one", "default"))


@pytest.mark.behaviour("shards/SH07")
def test_a_namespace_by_its_name_has_the_owner_of_its_content(ctrlhost_host):
    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("inside", nothing, CONFIG_MAPS, shard_by="namespace")
        plugin.add_controller("named", nothing, ctrlhost.For("v1", "Namespace"), shard_by="name")

    host = ctrlhost_host(plugin_of(setup), shards={"enabled": True})
    host.settle("60s")
    inside, named = host.host.plugins[0].controllers
    assert inside.shards.line == named.shards.line
    assert inside.shards.place(ctrlhost.Request("any", "shop")) == named.shards.place(ctrlhost.Request("shop"))
    assert inside.owner_of(ctrlhost.Request("any", "shop")) == named.owner_of(ctrlhost.Request("shop"))


def test_manifests_of_shards_have_replicas_rights_and_time(distributions, ctrlhost):
    source = """
        import ctrlhost

        plugin = ctrlhost.Plugin()

        @plugin.controller("v1/ConfigMap", shard_by="namespace")
        def reconcile(ctx, obj):
            pass
    """
    distributions.add("shop", source, attribute="plugin")
    result = ctrlhost("manifests", "--plugins=shop", "--image=shop:1", "--name=shop", "--shards=3")
    assert result.returncode == 0, result.stderr
    documents = [document for document in yaml.safe_load_all(result.stdout) if document]
    kinds = {document["kind"]: document for document in documents}
    spec = kinds["Deployment"]["spec"]
    assert spec["replicas"] == 3
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    pod = spec["template"]["spec"]
    # To hand over, to drain, and then some.
    assert pod["terminationGracePeriodSeconds"] == 60 + 30 + 10
    assert pod["topologySpreadConstraints"]
    arguments = pod["containers"][0]["args"]
    assert {"--shards", "--set=shards.min_members=2", "--set=shards.name=shop"} <= set(arguments)
    assert kinds["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    rules = [
        (rule["resources"], rule["verbs"])
        for document in documents
        if document["kind"] == "Role"
        for rule in document["rules"]
        if "leases" in rule["resources"] and "resourceNames" not in rule
    ]
    assert any({"create", "get", "list", "watch", "update", "delete"} == set(verbs) for _, verbs in rules)
    refused = ctrlhost("manifests", "--plugins=shop", "--image=shop:1", "--set=shards.enabled=true")
    assert refused.returncode == 2
    assert "shards.enabled: the number of replicas is missing" in refused.stderr


def test_the_command_and_the_debug_page_show_who_owns_what(ctrlhost_host, sandbox, ctrlhost):
    host = ctrlhost_host(declared(CONFIG_MAPS, shard_by="namespace"), sandbox=sandbox, shards={"enabled": True})
    host.settle("60s")
    shards = host.host.state.shards
    member = shards.membership.name
    result = ctrlhost("shards", f"--kubeconfig={sandbox.kubeconfig}", "--ranges")
    assert result.returncode == 0, result.stderr
    assert "demo/shards by namespace" in result.stdout
    assert member in result.stdout
    assert "100%" in result.stdout
    report = host.host.inspection.shards()
    assert report["member"] == member
    assert {(row["owner"], row["state"]) for row in report["map"]["ranges"]} == {(member, "open")}
    (check,) = [check for check in host.host.inspection.checks("readyz") if check.name == "shards"]
    assert check.passed
    assert member in check.detail
    (controller,) = host.host.plugins[0].controllers
    assert f"{member} owns its range" in controller.owner_of(Request("any", "default"))
    missing = ctrlhost("shards", f"--kubeconfig={sandbox.kubeconfig}", "--name=other")
    assert missing.returncode == 1
    assert "no Lease default/other-shards" in missing.stderr
    assert "`--namespace` says where the pods are" in missing.stderr
    assert host.host.stop(60.0)
    ended = ctrlhost("shards", f"--kubeconfig={sandbox.kubeconfig}")
    (row,) = (line.split() for line in ended.stdout.splitlines() if line.startswith(member))
    assert row[-1] == "over", "it left, and its Lease has no holder"


def test_a_fleet_that_shares_nothing_says_so_once(ctrlhost_host, caplog):
    host = ctrlhost_host(declared(CONFIG_MAPS), shards={"enabled": True})
    host.settle("60s")
    shards = host.host.state.shards
    host.wait_for(lambda: "no controller here shares its keys" in caplog.text)
    shards.wake()
    host.client.create(config_map("one", namespace="default"))
    host.settle("60s")
    assert caplog.text.count("no controller here shares its keys: all run on the leader (hint: say `shard_by`") == 1
    assert shards.membership.incarnation is None


@pytest.mark.parametrize(
    ("text", "told"),
    [("garbage", "check that one runs"), ('{"v": 2}', "version 2 is newer"), ("", "check that one runs")],
)
def test_the_command_names_the_lease_of_a_map_that_cannot_be_read(sandbox, ctrlhost, text, told):
    metadata = {"name": "shop-shards", "namespace": "default", "labels": {"ctrlhost.dev/fleet": "shop"}}
    metadata["annotations"] = {"ctrlhost.dev/shards": text}
    client = Client.load(sandbox.kubeconfig)
    client.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata})
    client.close()
    result = ctrlhost("shards", f"--kubeconfig={sandbox.kubeconfig}", "--name=shop")
    assert result.returncode == 1
    assert "error: Lease default/shop-shards: shard map: " in result.stderr
    assert told in result.stderr
