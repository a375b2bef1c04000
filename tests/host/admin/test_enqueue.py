"""Enqueued keys: at once, with a warning, and all of a controller."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ctrlhost
from ctrlhost import Every, Request
from ctrlhost.host.admin import Admin
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
    waiting = eventually(
        lambda: (status := key_of(shared.host, controller, key))["verdict"] == "backing off" and status
    )
    assert 500 < waiting["due_seconds"] <= 720
    assert waiting["facts"][0].startswith("1 failure, ")
    for times in (2, 3):
        answer = done(shared.host, "enqueue", controller=controller, keys=[key])
        assert answer == {"controller": controller, "queued": 1, "warnings": []}
        shared.ran(controller, key, times)
        again = eventually(
            lambda: (status := key_of(shared.host, controller, key))["verdict"] == "backing off" and status
        )
        assert again["facts"][0].startswith("1 failure, "), "the failures start anew"
    failing = {item["key"]: item for item in page_of(shared.host, controller, part="failing")["items"]}
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
    for priority, options in ((-100, {}), (7, {"priority": 7})):
        answer = done(shared.host, "enqueue", controller=controller, all=True, **options)
        assert answer["queued"] == len(objects)
        (warning,) = answer["warnings"]
        assert warning.startswith(f"{controller} is paused by uid ")
        items = page_of(shared.host, controller, limit=1000)["items"]
        assert {item["key"] for item in items} == {f"default/{obj['metadata']['name']}" for obj in objects}
        assert {item["priority"] for item in items} == {priority}
    done(shared.host, "resume", plugin=plugin, controller="a")
    shared.ran(controller, wanted[1], 2)
    status, answer = act(shared.host, "enqueue", controller=f"{plugin}/free", all=True)
    assert (status, answer["hint"]) == (409, "name its keys")
    free = f"{plugin}/free"
    for times, warnings in (
        (1, [f"{free} has no `For` and no key so far: the type `Request` of these keys may be wrong"]),
        (2, []),
    ):
        assert done(shared.host, "enqueue", controller=free, keys=["any"])["warnings"] == warnings
        shared.ran(free, "any", times)


def test_keys_have_the_type_that_the_controller_knows(ctrlhost_host: Any) -> None:
    originals: dict[str, Any] = {"text": "one", "number": 7, "pair": ("a", 1), "mixed": Request("a", "b"), "none": None}
    reconciled: dict[str, list[Any]] = {name: [] for name in originals}

    class Plugin:
        @ctrlhost.hookimpl
        def ctrlhost_setup(self, plugin: Any) -> None:
            for name, key in originals.items():
                every = Every(3600, requests=lambda key=key: [] if key is None else [key], at_start=True)
                plugin.add_controller(name, lambda _ctx, key, seen=reconciled[name]: seen.append(key), every)

    host = ctrlhost_host(Plugin())
    eventually(lambda: all(reconciled[name] == [key] for name, key in originals.items() if key is not None))
    admin = Admin(host.host.state)

    def enqueue(controller: str, *keys: str) -> tuple[int, Any]:
        body = json.dumps({"controller": f"{controller}", "keys": keys}).encode()
        status, answer = admin.act("enqueue", body, "a test")
        return status, json.loads(answer)

    plugin = host.host.plugins[0].name
    assert enqueue(f"{plugin}/text", "one", "a/b", "8")[1]["warnings"] == []
    assert enqueue(f"{plugin}/number", "7", "-8")[0] == 200
    assert enqueue(f"{plugin}/pair", "('a', 1)")[0] == 200
    assert enqueue(f"{plugin}/mixed", "b/a", "c/d/e", "f")[0] == 200
    wanted = {
        "text": ["one", "one", "a/b", "8"],
        "number": [7, 7, -8],
        "pair": [("a", 1), ("a", 1)],
        "mixed": [Request("a", "b"), Request("a", "b"), Request("e", "d", "c"), Request("f")],
    }
    for name, keys in wanted.items():
        eventually(lambda name=name, keys=keys: sorted(map(repr, reconciled[name])) == sorted(map(repr, keys)))
    for name, key, kind in (("number", "x", "int"), ("number", "9" * 5000, "int"), ("pair", "a", "tuple")):
        status, answer = enqueue(f"{plugin}/{name}", key)
        assert (status, answer["error"]) == (400, f"invalid key `{key}`")
        assert answer["hint"] == f"the type of the controller's keys: `{kind}`"
    assert enqueue(f"{plugin}/mixed", "a/b/c/d")[0] == 400
    (warning,) = enqueue(f"{plugin}/none", "a")[1]["warnings"]
    assert warning.endswith("the type `Request` of these keys may be wrong")
    eventually(lambda: reconciled["none"] == [Request("a")])
