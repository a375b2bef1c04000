"""What a CRD may say, which names it gets, and the conditions that show it.

Imports `registry` and below. Public: every module; the controller that acts on CRDs is `controllers.crds`.
"""
