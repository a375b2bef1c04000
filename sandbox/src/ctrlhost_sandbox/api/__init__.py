"""Routing of HTTP requests to verbs, discovery and OpenAPI.

Imports `verbs` and below. Public: `app`, and `subresources.bind`, by which the scheduler places pods.
"""
