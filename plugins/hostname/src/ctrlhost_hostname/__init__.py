"""The hostname controller, a ctrlhost plugin."""
