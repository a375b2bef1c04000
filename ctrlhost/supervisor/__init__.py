"""The supervisor: it loads and runs plugins, installs their CRDs, and contains their failures.

Imports `hookspecs`, `plugin`, `controller` and below. Public: nothing.
"""
