"""What a plugin's author gets: `PluginContext` and background tasks.

Imports `controller` and below. Public: `ctrlhost.PluginContext`.
"""
