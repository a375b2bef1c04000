"""The declaration, the overrides and the status of a controller."""

from __future__ import annotations

import logging

import pytest

from ctrlhost import Permission, PluginLoadError
from ctrlhost.controller.attachment import Attachment
from ctrlhost.controller.sources import Every, For, Owns, Source
from ctrlhost.manifests.rbac import implied, plurals
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter
from tests.support.controllers import WEB, Bench, Script, idle
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda plugin: plugin.add_controller("", print), "needs a name"),
        (lambda plugin: plugin.add_controller("a/b", print), "without a slash"),
        (lambda plugin: plugin.add_controller("a", None), "cannot be called"),
        (lambda plugin: plugin.add_controller("a", print, "v1"), "invalid source"),
        (lambda plugin: plugin.add_controller("a", print, For("v1", "Pod"), For("v1", "Node")), "more than one `For`"),
        (lambda plugin: plugin.add_controller("a", print, Owns("v1", "Pod")), "`Owns` needs a `For`"),
        (lambda plugin: plugin.add_controller("a", print, Every(3)), "`Every` without requests"),
        (lambda plugin: [plugin.add_controller("a", print) for _ in range(2)], "two controllers named `a`"),
        (lambda plugin: plugin.add_page("status", None), "must begin with a slash"),
        (lambda plugin: plugin.add_listener("8080", None), "HOST:PORT"),
    ],
)
@pytest.mark.behaviour("workqueue/K45")
@pytest.mark.behaviour("workqueue/K46")
def test_an_invalid_declaration_is_refused_by_name(bench: Bench, declare, message: str) -> None:
    with pytest.raises(PluginLoadError, match=message) as caught:
        declare(bench.plugin())
    assert caught.value.plugin == "demo"
    assert "demo" in caught.value.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": "3"}, "workers must be an integer, got '3'"),
        ({"workers": True}, "workers must be an integer"),
        ({"timeout": "30s"}, "timeout must be a number of seconds, got '30s'"),
        ({"timeout": float("nan")}, "timeout must be a number of seconds"),
        ({"rate_limiter": 5}, "int is not a rate limiter"),
    ],
)
def test_an_option_of_the_wrong_type_is_refused_when_given(bench: Bench, options, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        bench.plugin().add_controller("pods", print, **options)


@pytest.mark.behaviour("workqueue/K46")
def test_controllers_of_two_plugins_may_share_a_name(bench: Bench) -> None:
    names = [bench.plugin(name).add_controller("pods", print).name for name in ("one", "two")]
    assert names == ["one/pods", "two/pods"]


@pytest.mark.behaviour("workqueue/K49")
def test_a_limiter_of_the_plugin_replaces_the_default(bench: Bench, manual_clock: ManualClock) -> None:
    limiter = ItemFastSlowRateLimiter(2, 60, 5)
    controller = bench.controller(Script(ValueError(), None), rate_limiter=limiter)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    assert limiter.num_requeues(WEB) == 1
    manual_clock.advance(1.9)
    eventually(lambda: idle(controller))
    assert bench.results() == {"error": 1}
    manual_clock.advance(0.1)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})


class Overrides:
    """Settings of the operator for a controller."""

    def __init__(self, **settings) -> None:
        for name in ("workers", "timeout", "namespaces", "base_delay", "max_delay"):
            setattr(self, name, settings.get(name))


@pytest.mark.behaviour("workqueue/K50")
def test_the_operator_overrides_the_options_of_the_plugin(bench: Bench) -> None:
    bench.overrides["demo/pods"] = Overrides(workers=5, timeout=7.0, base_delay=1.0, namespaces=("a",))
    limiter = ItemExponentialFailureRateLimiter(1, 2)
    options = bench.controller(Script(), workers=2, timeout=3, rate_limiter=limiter, start=False).options
    assert (options.workers, options.timeout, options.namespaces) == (5, 7.0, ("a",))
    assert (options.base_delay, options.max_delay, options.rate_limiter) == (1.0, 1000.0, None)


@pytest.mark.behaviour("workqueue/K50")
def test_the_defaults_are_those_of_upstream(bench: Bench) -> None:
    options = bench.controller(Script(), workers=0, start=False).options
    assert (options.workers, options.timeout, options.needs_leader) == (1, None, True)
    assert (options.base_delay, options.max_delay) == (0.005, 1000.0)


def test_a_controller_reports_its_status(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    controller = bench.controller(Script(ValueError("no luck")), workers=2)
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    status = controller.status()
    assert (status.name, status.workers, status.runs, status.errors) == ("demo/pods", 2, 1, 1)
    assert status.last_error == "ValueError: no luck"
    assert status.synced


class Once(Source):
    """A source of another class: it enqueues one key when the workers start."""

    def attach(self, scope):
        class Starting(Attachment):
            def start(self):
                scope.queue.add(WEB)

        return Starting()

    def describe(self):
        return "once"

    def permissions(self, plural, limit):
        return [Permission("", [plural("v1", "Pod")[0]], ["get"])]


def test_a_source_of_another_class_needs_no_registration(bench: Bench) -> None:
    plugin, script = bench.plugin(), Script()
    plugin.add_controller("pods", script, Once())
    (controller,) = plugin.controllers
    controller.declare()
    controller.attach()
    assert controller.has_synced()
    assert controller.waiting() is None
    controller.start_workers()
    eventually(lambda: script.calls == [WEB] and idle(controller))
    assert controller.status().sources == ("once",)
    assert [one.resources for one in implied(plugin, plurals([]), ())] == [("pods",), ("events",)]
