"""The store: where every task stands, everything that happened to it, and who may write to it next.

The store decides truth. It knows rows and transactions, and nothing of charts, tools, models or policy.
"""
