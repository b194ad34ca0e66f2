"""Charts: a definition compiled to python-statemachine, which decides every transition.

The allow-list shown to the model, the check of a proposal, and the arrow in the diagram all come from the same
transitions. No tool, store or model is known here.
"""
