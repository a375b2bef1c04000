"""Enqueued keys: at once, with a warning, and all of a controller."""

from __future__ import annotations

import pytest

from tests.support.admin import EITHER, Acting, act, done
from tests.support.status import key_of, page_of
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour


@EITHER
@behaviour("operations/OP87")
def test_an_enqueued_key_does_not_wait_for_its_back_off(shared: Acting, plugin: str) -> None:
    fixed, name, controller = shared.folder / f"fixed-{plugin}", f"failing-{plugin}", f"{plugin}/b"
    shared.create("b", name, fail=str(fixed))
    key = f"default/{name}"
    waiting = eventually(lambda: (one := key_of(shared.host, controller, key))["verdict"] == "backing off" and one)
    assert 500 < waiting["due_seconds"] <= 720
    assert waiting["facts"][0].startswith("1 failures, ")
    for times in (2, 3):
        answer = done(shared.host, "enqueue", controller=controller, keys=[key])
        assert answer == {"controller": controller, "queued": 1, "warnings": []}
        shared.ran(controller, key, times)
        again = eventually(lambda: (one := key_of(shared.host, controller, key))["verdict"] == "backing off" and one)
        assert again["facts"][0].startswith("1 failures, "), "the failures start anew"
    failing = {one["key"]: one for one in page_of(shared.host, controller, part="failing")["items"]}
    assert failing[key]["failures"] == 1
    fixed.touch()
    done(shared.host, "enqueue", controller=controller, keys=[key])
    shared.host.line(f"ended {controller} {key}")
    eventually(lambda: key not in str(page_of(shared.host, controller, part="failing")))


@EITHER
@behaviour("operations/OP88")
def test_keys_that_are_not_in_the_cache_and_all_keys(shared: Acting, plugin: str) -> None:
    controller, wanted = f"{plugin}/a", [f"default/all-{plugin}-{number}" for number in range(3)]
    for key in wanted:
        shared.create("a", key.partition("/")[2])
        shared.ran(controller, key)
    missing = f"default/missing-{plugin}"
    answer = done(shared.host, "enqueue", controller=controller, keys=[missing, wanted[0]])
    assert answer == {
        "controller": controller, "queued": 2, "warnings": [f"{missing} is not in the cache of ConfigMap"],
    }  # fmt: skip
    shared.ran(controller, missing)
    shared.ran(controller, wanted[0], 2)
    shared.host.line(f"admin: enqueue {controller} {missing} {wanted[0]} by uid ", ": ok")

    done(shared.host, "pause", plugin=plugin, controller="a")
    objects = list(shared.client.list("v1", "ConfigMap", "default", label_selector="a=1"))
    for priority, given in ((-100, {}), (7, {"priority": 7})):
        answer = done(shared.host, "enqueue", controller=controller, all=True, **given)
        assert answer["queued"] == len(objects)
        (warning,) = answer["warnings"]
        assert warning.startswith(f"{controller} is paused by uid ")
        items = page_of(shared.host, controller, limit=1000)["items"]
        assert {one["key"] for one in items} == {f"default/{one['metadata']['name']}" for one in objects}
        assert {one["priority"] for one in items} == {priority}
    done(shared.host, "resume", plugin=plugin, controller="a")
    shared.ran(controller, wanted[1], 2)
    status, answer = act(shared.host, "enqueue", controller=f"{plugin}/free", all=True)
    assert (status, answer["hint"]) == (409, "name its keys")
    assert done(shared.host, "enqueue", controller=f"{plugin}/free", keys=["any"])["warnings"] == []
    shared.ran(f"{plugin}/free", "any")
