"""A kopf operator with admission webhooks, which the test runs as a process."""

from __future__ import annotations

import os
from typing import Any

import kopf

GROUP, CERTIFICATE = os.environ["TEST_GROUP"], os.environ["TEST_CERTIFICATE"]


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.admission.managed = f"auto.{GROUP}"
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", host="127.0.0.1", certfile=CERTIFICATE, pkeyfile=CERTIFICATE, cafile=f"{CERTIFICATE}.ca"
    )


@kopf.on.validate(GROUP, "v1", "parts", operation="CREATE")
def check(spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
    if spec.get("size", 0) > 5:
        raise kopf.AdmissionError("size is above 5", code=422)
    if spec.get("size", 0) > 3:
        warnings.append("size is above 3")


@kopf.on.mutate(GROUP, "v1", "parts", operation="CREATE")
def fill(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    if "size" not in spec:
        patch.spec["size"] = 1
