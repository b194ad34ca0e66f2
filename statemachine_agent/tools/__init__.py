"""Tools: arguments and results checked by schema, bindings that say whether anything was sent, and bounded retries.

Nothing here decides whether a call is allowed, or what follows from its outcome.
"""
