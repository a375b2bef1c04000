"""Controllers: sources, queue, workers, results.

Imports `own_writes`, `informers` and below, and nothing that knows plugins. Public: `ctrlhost.Context`,
`ControllerHandle`, `For`, `Owns`, `Watches`, `Every`.
"""
