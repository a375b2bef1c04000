"""A Deployment of memcached servers for each Memcached."""

from typing import Annotated

import ctrlhost
import msgspec

class Spec(msgspec.Struct, frozen=True):
    size: Annotated[int, msgspec.Meta(ge=0, le=5)] = 1

class Status(ctrlhost.ModelStatus):
    readyReplicas: int = 0

@ctrlhost.resource("cache.example.com/v1alpha1", short_names=["mc"])
class Memcached(ctrlhost.Model[Spec, Status]):
    """A set of memcached servers."""

class Settings(msgspec.Struct, frozen=True):
    image: str = "memcached:1.6"

plugin = ctrlhost.Plugin(settings=Settings)

@plugin.controller(Memcached, owns=["apps/v1/Deployment"])
def reconcile(ctx: ctrlhost.Context[Memcached, Settings], mc: Memcached) -> None:
    labels = {"app": "memcached", "memcached": mc.metadata.name}
    deployment = ctx.ensure({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": mc.metadata.name},
        "spec": {
            "replicas": mc.spec.size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "memcached", "image": ctx.settings.image}]},
            },
        },
    })
    ready = deployment.get_path("status", "readyReplicas", default=0)
    ctx.status.set(readyReplicas=ready)
    ctx.status.condition("Available", ready >= mc.spec.size, "ReadyReplicas", f"{ready} of {mc.spec.size} ready")
