"""The names of a namespace's Services in a ConfigMap for each Zone, by as many replicas as there are."""

import msgspec

import ctrlhost

SERVICE = "v1/Service"


class Spec(msgspec.Struct, frozen=True):
    """What a Zone asks for."""

    domain: str


class Status(ctrlhost.ModelStatus):
    """What has been written."""

    records: int = 0


@ctrlhost.resource("zones.example.com/v1")
class Zone(ctrlhost.Model[Spec, Status]):
    """A domain for the Services of its namespace."""


plugin = ctrlhost.Plugin()


@plugin.setup
def setup(_host: ctrlhost.PluginContext) -> dict[ctrlhost.Request, int]:
    """Count how often each zone has been written here."""
    return {}


def zones_of(service: ctrlhost.Object, caches: ctrlhost.Caches) -> list[ctrlhost.Request]:
    """Return the Zones that a Service is in: those of its namespace, so that no other replica is concerned."""
    return [ctrlhost.Request(zone.metadata.name, service.namespace) for zone in caches[Zone].list()]


@plugin.controller(
    Zone,
    owns=["v1/ConfigMap"],
    watches=[ctrlhost.Watches(SERVICE, map=zones_of, reads=("spec.clusterIP",))],
    shard_by="namespace",
)
def reconcile(ctx: ctrlhost.Context[Zone], zone: Zone) -> None:
    """Write the records of a zone."""
    services = {service.name: service.get_path("spec", "clusterIP") for service in ctx.cache(SERVICE).list()}
    records = {f"{name}.{zone.spec.domain}": address for name, address in services.items() if address != "None"}
    ctx.ensure({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": zone.metadata.name}, "data": records})
    ctx.status.set(records=len(records))
    ctx.state[ctx.request] = ctx.state.get(ctx.request, 0) + 1


@plugin.shards_changed
def forget(host: ctrlhost.PluginContext) -> None:
    """Forget the zones that other replicas write now."""
    for request in [request for request in host.state if not host.owns(request)]:
        del host.state[request]
