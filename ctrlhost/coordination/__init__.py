"""Leases, and who leads.

Imports `config`, `events`, `client` and below. Public: nothing; plugins ask `Context.leading`.
"""
