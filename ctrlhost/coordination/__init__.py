"""Leader election on Leases; the map of shards and its balance.

Imports `config`, `informers`, `events`, `client` and below. Public: nothing; plugins read `Context.leading`.
"""
