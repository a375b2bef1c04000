"""The indexed store compared with a simple model in Python: dicts with linear search."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ctrlhost.cache import Indexer, Object, namespace_index

HOSTS = ["a.example", "b.example", "c.example"]
objects = st.builds(
    lambda name, namespace, hosts, app: {
        "apiVersion": "v1",
        "kind": "Route",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app} if app else {}},
        "spec": {"rules": [{"host": host} for host in hosts]},
    },
    st.sampled_from(["x", "y"]),
    st.sampled_from(["one", "two"]),
    st.lists(st.sampled_from(HOSTS), max_size=3),
    st.sampled_from(["", "web", "db"]),
)


def key_of(thing: dict[str, Any]) -> str:
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"


def hosts_of(thing: dict[str, Any]) -> set[str]:
    return {rule["host"] for rule in thing["spec"]["rules"]}


def apps_of(thing: dict[str, Any]) -> set[str]:
    app = thing["metadata"]["labels"].get("app")
    return {app} if app else set()


class IndexerMachine(RuleBasedStateMachine):
    """Store and model return the same from every read."""

    def __init__(self) -> None:
        super().__init__()
        # One index of each kind: built in, a path evaluated in Rust, and a callable.
        self.indexer = Indexer({"namespace": namespace_index, "host": "spec.rules[*].host"})
        self.by_app = False
        self.things: dict[str, dict[str, Any]] = {}

    @rule(thing=objects)
    def add(self, thing: dict[str, Any]) -> None:
        self.indexer.add(thing)
        self.things[key_of(thing)] = thing

    @rule(thing=objects)
    def update(self, thing: dict[str, Any]) -> None:
        self.indexer.update(thing)
        self.things[key_of(thing)] = thing

    @rule(thing=objects)
    def delete(self, thing: dict[str, Any]) -> None:
        self.indexer.delete(thing)
        self.things.pop(key_of(thing), None)

    @rule(thing=objects)
    def delete_by_key(self, thing: dict[str, Any]) -> None:
        self.indexer.delete_by_key(key_of(thing))
        self.things.pop(key_of(thing), None)

    @rule(things=st.lists(objects, max_size=4, unique_by=key_of))
    def replace(self, things: list[dict[str, Any]]) -> None:
        self.indexer.replace(things)
        self.things = {key_of(thing): thing for thing in things}

    @rule(steps=st.lists(st.tuples(st.sampled_from(["add", "update", "delete"]), objects), max_size=4))
    def transaction(self, steps: list[tuple[str, dict[str, Any]]]) -> None:
        self.indexer.transaction(steps)
        for operation, thing in steps:
            if operation == "delete":
                self.things.pop(key_of(thing), None)
            else:
                self.things[key_of(thing)] = thing

    @rule()
    def add_an_index(self) -> None:
        if not self.by_app:
            self.indexer.add_indexers({"app": lambda obj: [obj.labels["app"]] if "app" in obj.labels else None})
            self.by_app = True

    @rule(thing=objects)
    def find_objects_that_share_a_host(self, thing: dict[str, Any]) -> None:
        keys = sorted(obj.key for obj in self.indexer.index("host", thing))
        assert keys == sorted(key for key, other in self.things.items() if hosts_of(other) & hosts_of(thing))

    @invariant()
    def check_state(self) -> None:
        assert sorted(self.indexer.list_keys()) == sorted(self.things)
        assert len(self.indexer) == len(self.things)
        for key, thing in self.things.items():
            obj = self.indexer.get_by_key(key)
            assert isinstance(obj, Object)
            assert obj.to_dict() == thing
        self.compare("namespace", lambda thing: {thing["metadata"]["namespace"]})
        self.compare("host", hosts_of)
        if self.by_app:
            self.compare("app", apps_of)

    def compare(self, index: str, values_of: Any) -> None:
        values = set().union(*(values_of(thing) for thing in self.things.values()))
        assert set(self.indexer.list_index_func_values(index)) == values
        for value in [*values, "no such value"]:
            keys = sorted(key for key, thing in self.things.items() if value in values_of(thing))
            assert sorted(self.indexer.index_keys(index, value)) == keys
            assert sorted(obj.key for obj in self.indexer.by_index(index, value)) == keys


IndexerMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
TestIndexerModel = IndexerMachine.TestCase
