"""The sandbox's clock, which tests and users may advance."""

from __future__ import annotations

import math
import time

import pytest
from ctrlhost_sandbox import Options, Sandbox
from ctrlhost_sandbox.apimachinery import times

from tests.support.http_client import Api
from tests.support.objects import config_map, core, pod
from tests.support.rbac_rig import api_of
from tests.support.waiting import eventually

HOUR = 3600


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
@pytest.mark.parametrize("by", ["method", "endpoint"])
def test_advancing_the_clock_moves_times_and_delays(by: str) -> None:
    options = Options(admin=True, pod_start_delay=HOUR, pod_ready_delay=0.0)
    with Sandbox(options=options, controllers=["workloads"]) as sandbox, api_of(sandbox.kubeconfig) as api:
        api.post("/api/v1/namespaces", {"metadata": {"name": "t"}}).expect(201)
        api.post(core("t", "pods"), pod(nodeSelector={})).expect(201)
        eventually(lambda: api.get(core("t", "pods", "p")).json()["spec"].get("nodeName") and sandbox.at_rest)
        assert api.get(core("t", "pods", "p")).json()["status"]["phase"] == "Pending"
        if by == "method":
            sandbox.advance(HOUR)
        else:
            api.post("/sandbox/v1/advance", {"seconds": HOUR}).expect(200)
        eventually(lambda: api.get(core("t", "pods", "p")).json()["status"]["phase"] == "Running")
        obj = api.post(core("t", "configmaps"), config_map("c")).expect(201)
        assert times.epoch(obj["metadata"]["creationTimestamp"]) >= time.time() + HOUR - 60
        created = api.get("/api/v1/namespaces/t").json()["metadata"]["creationTimestamp"]
        assert times.epoch(created) < time.time() + 60


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_the_clock_never_goes_back(server: Sandbox, api: Api) -> None:
    for seconds in (-1.0, 1e10, math.inf, math.nan):
        with pytest.raises(ValueError, match="seconds"):
            server.advance(seconds)
    for body in ({"seconds": -1}, {"seconds": 1e10}, {"seconds": "1"}, {}, {"seconds": 1, "more": 2}):
        api.post("/sandbox/v1/advance", body).fails(400)


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_the_clock_ends_before_years_have_five_digits() -> None:
    with Sandbox(options=Options(admin=True)) as sandbox, api_of(sandbox.kubeconfig) as api:

        def advance_far() -> None:
            for _ in range(300):
                sandbox.advance(1e9)

        with pytest.raises(ValueError, match="cannot advance beyond the year 9000"):
            advance_far()
        failure = api.post("/sandbox/v1/advance", {"seconds": 1e9}).fails(400, "BadRequest")
        assert failure["message"] == "invalid advance: the clock cannot advance beyond the year 9000"
        obj = api.post(core("default", "configmaps"), config_map("late")).expect(201)
        assert 8900 < int(obj["metadata"]["creationTimestamp"].partition("-")[0]) <= 9000
