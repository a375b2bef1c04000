"""Label and namespace selectors, as users write them.

Imports nothing. Public: nothing; the settings, the sources and the informers parse selectors here.
"""
