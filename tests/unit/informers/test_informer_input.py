"""Invalid arguments of informers, which are refused at the request."""

from __future__ import annotations

import pytest

from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory


@pytest.fixture
def factory():
    informers = InformerFactory(Client("http://127.0.0.1:1"))
    yield informers
    informers.stop()


@pytest.mark.parametrize(
    "arguments",
    [
        {"label_selector": {"a": "b"}},
        {"field_selector": 5},
        {"transform": 5},
        {"namespaces": "default"},
        {"namespaces": [5]},
        {"kind": ""},
        {"kind": None},
        {"api_version": None},
    ],
)
def test_an_invalid_informer_is_refused_where_it_is_requested(factory, arguments):
    with pytest.raises(TypeError):
        factory.informer(**{"api_version": "v1", "kind": "Pod", **arguments})
    with pytest.raises(ValueError, match="more than one slash"):
        factory.informer("a/b/c", "Pod")
    assert factory.informers() == []


def test_an_invalid_handler_or_queue_is_refused_and_no_later_change_is_lost(factory):
    pods = factory.informer("v1", "Pod")
    for wrong in ({"on_add": 5}, {"on_update": "x"}, {"on_delete": []}, {"filter": True}):
        with pytest.raises(TypeError, match="handler callbacks must be functions"):
            pods.add_handler(**wrong)
    with pytest.raises(TypeError, match="a WorkQueue, got 'queue'"):
        pods.enqueue_to("queue")
