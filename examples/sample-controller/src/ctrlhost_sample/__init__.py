"""The sample controller: a third-party ctrlhost plugin."""
