"""Programs that show ctrlhost at work; run them from the root of the repository."""
