"""Controllers by declaration: `ctrlhost.Plugin`, and what its functions get.

Imports `hookspecs`, `plugin`, `controller` and below. Public: `Plugin`, `Controller`, `AsyncContext`.
"""
