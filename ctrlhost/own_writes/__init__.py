"""A plugin's own writes, which it reads before its cache shows them.

Imports `informers` and below. Public: `ctrlhost.Expectations`.
"""
