"""Controllers: sources, queue, workers, results.

Imports `own_writes`, `informers` and below, and no plugin machinery. Public: `ctrlhost.Context`, `For`, `Owns`, `Watches`, `Every`, `ControllerHandle`.
"""
