"""A PersistentVolumeClaim for each EphemeralVolumeClaim: the operator of kopf's tutorial."""

import ctrlhost
import msgspec


class Spec(msgspec.Struct, frozen=True):
    size: ctrlhost.Quantity
    storageClassName: str | None = None


class Status(ctrlhost.ModelStatus):
    phase: str = "Pending"


@ctrlhost.resource("example.com/v1", short_names=["evc"])
class EphemeralVolumeClaim(ctrlhost.Model[Spec, Status]):
    """A claim that goes with the object that asks for it."""


plugin = ctrlhost.Plugin()


@plugin.controller(EphemeralVolumeClaim, owns=["v1/PersistentVolumeClaim"])
def reconcile(ctx: ctrlhost.Context[EphemeralVolumeClaim], evc: EphemeralVolumeClaim) -> None:
    """Keep the size and the labels of the claim; the garbage collector deletes it with its owner."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": evc.spec.size}},
        "storageClassName": evc.spec.storageClassName,
    }
    try:
        claim = ctx.ensure(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": evc.metadata.name, "labels": evc.metadata.labels},
                "spec": {name: value for name, value in spec.items() if value is not None},
            }
        )
    except ctrlhost.Invalid as error:
        # Claims cannot shrink, and grow only once they are bound: a retry helps after the next change.
        ctx.status.condition("Ready", False, "Refused", error.message)
        raise ctrlhost.TerminalError(error.message) from error
    phase = claim.get_path("status", "phase", default="Pending")
    ctx.status.set(phase=phase)
    ctx.status.condition("Ready", phase == "Bound", phase, f"the claim is {phase}")
