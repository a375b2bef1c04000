"""Tables that are generated, and what generates them."""
