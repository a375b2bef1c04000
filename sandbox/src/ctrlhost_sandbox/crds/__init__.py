"""Checks of CRDs, their accepted names and their conditions.

Imports `registry` and below. Public: every module; the controller that acts on CRDs is `controllers.crds`.
"""
