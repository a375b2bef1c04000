"""List and watch one resource, and feed its objects to the informer of the core.

Imports `client`, `transport` and below. Public: nothing; `informers` shares reflectors.
"""
