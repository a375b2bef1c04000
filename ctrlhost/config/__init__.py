"""Settings: their names, types and defaults, and where their values come from.

Imports `duration`, `selectors` and `errors`. Public: nothing; the host passes plugins their settings.
"""
