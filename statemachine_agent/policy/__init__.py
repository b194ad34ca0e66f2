"""Policy: who may do what, who must say yes to which exact action, and for how long that holds.

It reads checked arguments and recorded identities, and nothing that a model wrote.
"""
