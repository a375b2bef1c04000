"""Controllers: sources fill a queue, workers reconcile its keys, results decide about retries.

Imports `own_writes`, `informers` and below; it does not know how plugins are loaded and run. Public:
`ctrlhost.Context`, `ControllerHandle`, `For`, `Owns`, `Watches`, `Every`.
"""
