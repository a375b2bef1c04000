"""Leader election on Leases.

Imports `config`, `events`, `client` and below. Public: nothing; plugins ask `Context.leading`.
"""
