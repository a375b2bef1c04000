"""Label, field and namespace selectors: parsed once, asked often.

Imports `errors`. Public: nothing; the host and its informers read selectors that users wrote.
"""
