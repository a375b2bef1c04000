"""`ctrlhost run` as a process: its work and its shutdown."""

from __future__ import annotations

import json
import signal

import pytest

import ctrlhost
from tests.support.plugin_sources import BLOCKS, GREETER, WIDGETS, hook, to_greet


def test_a_plugin_works_on_the_sandbox_and_the_host_stops_on_a_signal(distributions, start_host):
    distributions.add("greeter", GREETER)
    host = start_host("--sandbox", plugins="greeter", forked=False)
    client = ctrlhost.Client.load(host.kubeconfig)
    client.create(to_greet("ann"))
    line = host.line("greeting ann")
    assert line["controller"] == "greeter/greeter"
    assert line["key"] == "default/ann"
    assert line["reconcile_id"]
    host.line("plugin greeter running")
    assert host.get("/readyz") == (200, "ok")
    status, body = host.get("/readyz?verbose")
    assert status == 200
    assert "[+]plugin/greeter ok: running" in body
    assert "[+]informer/" in body
    assert host.metric("ctrlhost_plugin_state", plugin="greeter", state="running") == 1
    host.wait_for_metric(1, "controller_runtime_reconcile_total", controller="greeter/greeter", result="success")
    host.wait_for_metric(1, "workqueue_adds_total", name="greeter/greeter")
    host.wait_for_metric(1, "rest_client_requests_total", code="200")
    host.wait_for_metric(1, "informer_store_resource_version", resource="configmaps")
    queues = json.loads(host.get("/debug/queues")[1])
    assert [queue["controller"] for queue in queues] == ["greeter/greeter"]
    assert client.get("v1", "ConfigMap", "ann-greeting", "default")["data"] == {"greeting": "hello Ann"}
    assert host.stop() == 0
    assert host.lines[-1]["msg"] == "stopped"


def test_crds_are_installed_on_the_sandbox(distributions, start_host):
    distributions.add("widgets", WIDGETS)
    host = start_host("--sandbox", plugins="widgets")
    host.line("plugin widgets running")
    client = ctrlhost.Client.load(host.kubeconfig)
    client.create({"apiVersion": "host.test/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}})
    host.line("saw widget w")
    assert host.stop() == 0


def test_a_plugin_may_establish_the_crds_of_another(distributions, start_host):
    distributions.add("widgets", WIDGETS)
    host = start_host(
        "--sandbox", "--sandbox-crd-conditions=external", "--set=naming.mode=enforce", plugins="widgets,naming"
    )
    host.line("plugin naming running")
    host.line("plugin widgets running")
    assert host.stop() == 0


def test_sigint_works_like_sigterm(distributions, start_host):
    distributions.add("greeter", GREETER)
    host = start_host("--sandbox", plugins="greeter", forked=False)
    host.line("plugin greeter running")
    host.signal(signal.SIGINT)
    assert host.wait() == 0
    assert host.lines[-1]["msg"] == "stopped"


def test_a_controller_that_the_operator_has_paused_reconciles_nothing(distributions, start_host):
    distributions.add("greeter", GREETER)
    host = start_host("--sandbox", "--set=controllers.greeter/greeter.paused=true", plugins="greeter")
    client = ctrlhost.Client.load(host.kubeconfig)
    # What is in the first list has another priority, and the depth is counted by priority.
    host.line("plugin greeter running")
    for name in ("ann", "bob"):
        client.create(to_greet(name))
    host.line("plugin greeter degraded: paused: greeter/greeter")
    host.wait_for_metric(2, "workqueue_depth", name="greeter/greeter")
    assert "degraded: paused" in host.get("/readyz?verbose")[1]
    assert host.metric("controller_runtime_reconcile_total", controller="greeter/greeter", result="success") == 0
    assert host.stop() == 0
    assert "greeting ann" not in host.text


def test_an_endless_reconcile_does_not_block_shutdown(distributions, start_host):
    distributions.add("stuck", BLOCKS)
    host = start_host("--sandbox", "--set=host.drain_timeout=200ms", plugins="stuck")
    ctrlhost.Client.load(host.kubeconfig).create(to_greet("ann"))
    host.line("blocking")
    assert host.stop() == 0
    assert "controller stuck/stuck did not stop in time; abandoned" in host.text


def test_a_second_signal_forces_exit(distributions, start_host):
    distributions.add("stuck", BLOCKS)
    host = start_host("--sandbox", "--set=host.drain_timeout=1h", plugins="stuck", forked=False)
    ctrlhost.Client.load(host.kubeconfig).create(to_greet("ann"))
    host.line("blocking")
    host.signal(signal.SIGTERM)
    host.line("SIGTERM: shutting down")
    host.signal_until_exit(signal.SIGTERM)
    assert host.wait() == 1
    assert "second SIGTERM: forcing exit" in host.text


def test_a_signal_forwarded_by_a_wrapper_is_not_a_second_one(distributions, start_host):
    distributions.add("greeter", GREETER)
    host = start_host("--sandbox", plugins="greeter")
    host.line("plugin greeter running")
    host.signal(signal.SIGINT)
    host.signal(signal.SIGTERM)
    assert host.wait() == 0


def test_a_signal_during_startup_stops_it(distributions, start_host):
    distributions.add("slow", hook("ctrlhost_setup", "print('setting up', flush=True); __import__('time').sleep(3600)"))
    host = start_host("--sandbox", "--set=host.drain_timeout=1s", plugins="slow", forked=False)
    host.wait_for(lambda: "setting up" in host.output, "the set-up")
    host.signal(signal.SIGTERM)
    assert host.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_host_runs_ends_the_process(distributions, start_host, number):
    distributions.add("slow", "print('importing', flush=True)\n__import__('time').sleep(3600)")
    host = start_host("--sandbox", plugins="slow", forked=False)
    host.wait_for(lambda: "importing" in host.output, "the import")
    host.signal(number)
    assert host.wait() == 0
    assert "Traceback" not in host.text


def test_a_running_reconcile_finishes_before_the_exit(distributions, start_host):
    distributions.add(
        "slow",
        GREETER.replace(
            "ctx.log.info", "ctx.log.info('at it'); ctx._scope.plugin.services.stopping.wait(); ctx.log.info"
        ),
    )
    host = start_host("--sandbox", plugins="slow", forked=False)
    client = ctrlhost.Client.load(host.kubeconfig)
    client.create(to_greet("ann"))
    host.line("at it")
    assert host.stop() == 0
    assert "greeting ann" in host.text
