"""List and watch one resource, and feed what arrives to the informer of the core.

Imports `client`, `transport` and below. Public: nothing; informers share reflectors.
"""
