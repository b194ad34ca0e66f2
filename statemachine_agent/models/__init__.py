"""Models: the closed union of what can be decided, and the port through which a decision is asked for.

A model decides nothing but the next proposal. Nothing here knows whether it will be accepted.
"""
