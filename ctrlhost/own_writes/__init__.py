"""A plugin's own writes, visible before the cache has caught up with them.

Imports `informers` and below. Public: `ctrlhost.Expectations`.
"""
