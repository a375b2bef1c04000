"""Objects in memory (`store`) and on disk (`persistence`).

Imports `apimachinery`. Public: both modules.
"""
