"""The encodings of bodies: JSON, YAML and protobuf. Imports `schema` and below. Public: `negotiation`."""
