"""From an HTTP request to the verb that answers it, and discovery and OpenAPI.

Imports `verbs` and below. Public: `app`, and `subresources.bind`, by which the scheduler places pods.
"""
