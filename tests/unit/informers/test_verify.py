from __future__ import annotations

import pytest

from ctrlhost.errors import CtrlhostError
from ctrlhost.informers.verify import Difference
from tests.support.stub_api_server import Frames, Json, pod, pod_list
from tests.support.waiting import eventually

FIRST = Json(pod_list(5, pod("a", 1), pod("b", 2)))


@pytest.mark.behaviour("informers/PG3")
@pytest.mark.behaviour("informers/RE33")
def test_a_cache_equal_to_the_server_has_no_differences(rig):
    rig.serve([FIRST, Json(pod_list(5, pod("a", 1), continue_="x")), Json(pod_list(5, pod("b", 2)))]).synced()
    assert rig.pods.check() == []
    first, second = rig.lists[1:]
    assert (first.query["resourceVersion"], first.query["resourceVersionMatch"]) == ("5", "Exact")
    assert not {"resourceVersion", "resourceVersionMatch"} & second.query.keys()


@pytest.mark.behaviour("informers/RE33")
def test_missing_extra_and_outdated_objects_are_found_and_repaired(rig):
    truth = Json(pod_list(5, pod("b", 3), pod("c", 4)))
    rig.serve([FIRST, truth]).synced()
    eventually(lambda: rig.pods.state == "watching")
    wrong = [Difference("default/a", "1", ""), Difference("default/b", "2", "3"), Difference("default/c", "", "4")]
    assert rig.pods.check() == wrong
    assert rig.pods.check(repair=True) == wrong
    rig.holds(b=3, c=4)
    assert rig.pods.check() == []


def test_a_comparison_requires_a_first_list(rig):
    with pytest.raises(CtrlhostError, match="no first list yet"):
        rig.pods.check()


@pytest.mark.behaviour("informers/RE33")
@pytest.mark.behaviour("findings/FT2")
def test_a_transformed_cache_is_compared_by_versions(rig):
    def slim(obj):
        return {"metadata": {"name": obj.name, "namespace": obj.namespace, "resourceVersion": obj.resource_version}}

    pods = rig.factory.informer("v1", "Pod", transform=slim)
    rig.pods.release()
    rig.serve([FIRST, FIRST, Json(pod_list(5, pod("a", 1), pod("b", 3)))], [Frames()]).synced()
    assert pods.check() == []
    assert pods.check() == [Difference("default/b", "2", "3")]
