"""What happens to an object between the request and the store: normalization, defaults, validation, admission.

Imports `kinds` and below. Public: `objects`, `chain`, and `quotas`.
"""
