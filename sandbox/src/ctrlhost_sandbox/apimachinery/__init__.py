"""Parts of all API objects: statuses, times, names, selectors, conditions.

Imports no other room. Public: every module.
"""
