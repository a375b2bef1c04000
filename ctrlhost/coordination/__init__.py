"""Leader election on Leases.

Imports `config`, `informers`, `events`, `client` and below. Public: nothing; plugins read `Context.leading`.
"""
