"""The handlers of on.validate and on.mutate, over the host's webhooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import ApiError, Client
from ctrlhost.testing import HostUnderTest
from plugins.kopf.tests.operators import API_VERSION, KIND, Calls, example, foreign, install, operator

OPERATOR = """
    import ctrlhost_kopf as kopf

    @kopf.on.startup()
    def configure(settings, memo, **_):
        memo.tag = "yes"
        settings.admission.server = kopf.WebhookServer(port=1234)
        settings.admission.managed = "auto.kopf.dev"

    @kopf.on.validate("kopfexamples", id="checks", operations=["CREATE", "UPDATE"])
    def check(spec, old, new, diff, operation, userinfo, dryrun, warnings, **_):
        record("validate", operation, bool(old), bool(new), [list(item) for item in diff], userinfo["username"], dryrun)
        if spec.get("bad") == "admission":
            raise kopf.AdmissionError("not that", code=429)
        if spec.get("bad") == "permanent":
            raise kopf.PermanentError("never that")
        if spec.get("bad"):
            raise ValueError("what is that")
        if spec.get("odd"):
            warnings.append("that is odd")

    @kopf.on.mutate("kopfexamples", field="spec.field", operations=["CREATE", "DELETE"])
    async def complete(spec, patch, memo, **_):
        patch.spec["doubled"] = 2 * spec["field"]
        patch.meta.labels["mutated"] = memo.tag
        patch.spec["field"] = None

    @kopf.on.validate("kopfexamples", labels={"locked": "yes"}, operations=["DELETE"])
    def locked(name, **_):
        raise kopf.AdmissionError(f"{name} is locked", code=403)

    @kopf.on.validate("example.com", "v1", "absent", id="early")
    def early(**_): ...

    @kopf.on.validate("kopfexamples", when=lambda spec, **_: spec.get("when"))
    def never(**_):
        raise kopf.AdmissionError("when")
"""


@pytest.mark.behaviour("kopf/KO17")
def test_they_are_called_as_by_kopf(
    ctrlhost_host: Callable[..., HostUnderTest], tmp_path: Path, sandbox: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls(tmp_path)
    plugin = foreign(operator(tmp_path / "operator", "admission", OPERATOR, calls))
    host = ctrlhost_host(plugin, server=sandbox, start=False, least_privilege=False)
    client = host.client
    install(client)
    host.start(check=True)
    early = "webhook early: the server does not serve example.com/v1/absent: it is registered at the next start"
    assert early in caplog.messages
    assert "webhook complete/spec.field: not called for DELETE" in caplog.messages

    for bad, code, message in (
        ("admission", 429, "not that"),
        ("permanent", 500, "never that"),
        ("other", 500, "what is that"),
    ):
        with pytest.raises(ApiError, match=message) as refused:
            client.create(example("a", spec={"bad": bad}))
        assert refused.value.status == code

    created = client.create(example("a", spec={"field": 2, "kept": 1}))
    assert created["spec"] == {"doubled": 4, "kept": 1}
    assert created["metadata"]["labels"]["mutated"] == "yes"
    client.patch(API_VERSION, KIND, "a", "default", {"spec": {"kept": 2}})
    *_, change = calls.wait("validate", "UPDATE")
    assert change[2:4] == [True, True]
    assert ["change", ["spec", "kept"], 1, 2] in change[4]
    assert calls.of("validate", "CREATE")[0][2:4] == [False, True]
    assert change[5]
    assert change[6] is False

    with pytest.raises(ApiError, match="when") as refused:
        client.patch(API_VERSION, KIND, "a", "default", {"spec": {"when": True}})
    client.patch(API_VERSION, KIND, "a", "default", {"metadata": {"labels": {"locked": "yes"}}})
    with pytest.raises(ApiError, match="a is locked") as refused:
        client.delete(API_VERSION, KIND, "a", "default")
    assert refused.value.status == 403
    client.patch(API_VERSION, KIND, "a", "default", {"metadata": {"labels": {"locked": None}}})
    client.delete(API_VERSION, KIND, "a", "default")
    warned(client, calls)


def warned(client: Client, calls: Calls) -> None:
    """Check that a warning refuses nothing."""
    client.create(example("b", spec={"odd": True}))
    assert len(calls.of("validate", "CREATE")) >= 2
