"""Settings: their names, types and defaults, and the sources of their values.

Imports `duration`, `selectors` and `errors`. Public: nothing; the host passes plugins their settings.
"""
