"""Read-your-own-writes: a plugin's writes, which it reads before its cache shows them.

Imports `informers` and below. Public: `ctrlhost.Expectations`.
"""
