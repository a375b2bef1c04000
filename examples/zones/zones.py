"""The names of a namespace's Services in a ConfigMap for each Zone, by as many replicas as there are.

With `ctrlhost run --shards` each replica has some of the namespaces: `shard_by` says that a Zone goes by its namespace,
and `shards_changed` drops what this replica remembers of Zones that another one has now.
"""

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
    """Remember the number of records of each Zone here, for the page."""
    return {}


def zones_of(service: ctrlhost.Object, caches: ctrlhost.Caches) -> list[ctrlhost.Request]:
    """Return the Zones that a Service is in: those of its namespace, so that no other replica is concerned."""
    return [ctrlhost.Request(zone.metadata.name, service.namespace) for zone in caches[Zone].list()]


@plugin.controller(
    Zone,
    owns=["v1/ConfigMap"],
    watches=[ctrlhost.Watches(SERVICE, map=zones_of, reads=("spec.clusterIP",))],
    shard_by="namespace",
    gone=True,
)
def reconcile(ctx: ctrlhost.Context[Zone], zone: Zone | None) -> None:
    """Write the records of a Zone."""
    if zone is None:
        ctx.state.pop(ctx.request, None)
        return
    # The Services of the Zone's namespace; of other replicas' namespaces none is cached here.
    services = {service.name: service.get_path("spec", "clusterIP") for service in ctx.cache(SERVICE).list()}
    records = {f"{name}.{zone.spec.domain}": address for name, address in services.items() if address != "None"}
    ctx.ensure({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": zone.metadata.name}, "data": records})
    ctx.status.set(records=len(records))
    ctx.state[ctx.request] = len(records)


@plugin.shards_changed
def forget(host: ctrlhost.PluginContext) -> None:
    """Forget the Zones that other replicas have now; those that came here are reconciled after this."""
    # A copy: Zones that stay are reconciled meanwhile.
    for request in list(host.state):
        if not host.owns(request):
            host.state.pop(request, None)


@plugin.report("/", title="Zones")
def report(host: ctrlhost.PluginContext) -> dict[str, int]:
    """Show what this replica has."""
    return {"zones": len(host.state), "records": sum(host.state.values())}
