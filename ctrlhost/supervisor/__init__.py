"""Load plugins, run them, and contain what they do wrong.

Imports `hookspecs`, `plugin`, `controller` and below. Public: nothing.
"""
