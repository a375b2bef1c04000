"""The naming controller, a ctrlhost plugin."""
