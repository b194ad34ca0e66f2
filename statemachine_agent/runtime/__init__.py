"""The runtime: starts tasks, runs them until they rest, resumes them after anything, and takes people's decisions.

It puts machine, store, tools, policy and model together; none of them knows it.
"""
